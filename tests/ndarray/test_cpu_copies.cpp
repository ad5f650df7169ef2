// Copies on the CPU that turn axes, in squares and tiles, and conversions of half types in vectors: every size around
// their edges, every instruction set.
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/ndarray/detail/simd_target.h>

#include "tests/support/catch.h"

namespace sluice {
namespace {

using simd::Target;

std::vector<Target> targets() {
  std::vector<Target> all;
  for (const Target target : {Target::scalar, Target::neon, Target::avx2, Target::avx512}) {
    if (simd::is_available(target))
      all.push_back(target);
  }
  return all;
}

// A batch of (rows, columns) matrices turned into (columns, rows), the source with `pad` elements behind each row.
template <class T>
int wrong_in_turned(std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t pad) {
  const std::int64_t step = columns + pad, count = batch * rows * step;
  std::vector<T> from(static_cast<std::size_t>(count));
  const auto size = static_cast<std::size_t>(batch * rows * columns);
  // Begins at a line, as large results must to be written past the caches.
  std::vector<T> room(size + 1 + 64 / sizeof(T), T{77});
  const std::size_t skipped = (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64 / sizeof(T);
  const std::span<T> to(room.data() + skipped, size + 1);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<T>(i * 2654435761u >> 7);
  const Shape shape{batch, columns, rows}, out{rows * columns, rows, 1}, in{rows * step, 1, step};
  const auto plan = detail::plan_strided<2>(shape, {&out, &in}, detail::AxisOrder::free);
  if (!detail::transpose_on_cpu(plan, to.data(), from.data(), sizeof(T)))
    return -1;
  int wrong = to.back() != T{77};
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto at = static_cast<std::size_t>((b * columns + c) * rows + r);
        wrong += to[at] != from[static_cast<std::size_t>((b * rows + r) * step + c)];
      }
    }
  }
  return wrong;
}

template <class T>
void check_turned() {
  constexpr std::int64_t side = 64 / static_cast<std::int64_t>(sizeof(T));
  for (const std::int64_t rows : {std::int64_t{8}, side - 1, side, side + 1, 8 * side, 8 * side + 3, 17 * side + 5}) {
    for (const std::int64_t columns : {std::int64_t{8}, side, 2 * side + 1, 8 * side - 1, 9 * side}) {
      CAPTURE(sizeof(T), rows, columns);
      if (rows < 8 || columns < 8)
        continue;
      CHECK(wrong_in_turned<T>(1, rows, columns, 0) == 0);
      CHECK(wrong_in_turned<T>(3, rows, columns, 5) == 0);
    }
  }
}

TEST_CASE("copies that turn axes move every element, whatever the sizes", "[ndarray][copy]") {
  for (const Target target : targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(static_cast<int>(target));
    check_turned<std::uint8_t>();
    check_turned<std::uint16_t>();
    check_turned<std::uint32_t>();
    check_turned<std::uint64_t>();
  }
}

// More than 4 MB: whole lines go past the caches, where rows of the target are whole lines, and otherwise not.
TEST_CASE("large copies that turn axes move every element", "[ndarray][copy]") {
  for (const Target target : targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(static_cast<int>(target));
    for (const std::int64_t odd : {0, 1}) {
      CHECK(wrong_in_turned<std::uint8_t>(1, 2112 + odd, 2101, 0) == 0);
      CHECK(wrong_in_turned<std::uint16_t>(1, 1472 + odd, 1507, 3) == 0);
      CHECK(wrong_in_turned<std::uint32_t>(1, 1040 + odd, 1037, 0) == 0);
      CHECK(wrong_in_turned<std::uint32_t>(3, 272 + odd, 2057, 7) == 0);
      CHECK(wrong_in_turned<std::uint64_t>(1, 776 + odd, 723, 0) == 0);
    }
  }
}

TEST_CASE("copies that turn no axes are left to the others", "[ndarray][copy]") {
  const Shape shape{16, 16}, packed{16, 1}, wide{64, 2}, turned{1, 16};
  std::vector<float> from(2048, 1), to(2048, 2);
  const auto is_turned = [&](const Shape& out, const Shape& in) {
    const auto plan = detail::plan_strided<2>(shape, {&out, &in}, detail::AxisOrder::free);
    return detail::transpose_on_cpu(plan, to.data(), from.data(), 4);
  };
  CHECK(!is_turned(packed, packed));
  CHECK(!is_turned(packed, wide));
  CHECK(!is_turned(wide, turned));
  CHECK(is_turned(packed, turned));
  CHECK(is_turned(turned, packed));
}

struct Planes {
  std::int64_t batch, count, n, pad, step;  // `step` from plane to plane, `pad` elements behind a batch of them
  bool together;                            // in the target
};

// Elements of planes that are brought side by side or parted, both sides one element behind the start of their memory;
// -1 if that is left to other loops.
template <class T>
int wrong_in_planes(const Planes& p) {
  const std::int64_t all = p.n * p.count, some = p.step * (p.count - 1) + p.n + p.pad;
  const Shape apart{some, p.step, 1}, beside{all, 1, p.count};
  const Shape shape{p.batch, p.count, p.n}, &out = p.together ? beside : apart, &in = p.together ? apart : beside;
  std::vector<T> from(static_cast<std::size_t>(p.batch * in[0] + 1)),
      to(static_cast<std::size_t>(p.batch * out[0] + 2));
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<T>(i * 2654435761u >> 7);
  std::vector<T> want = to;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const std::int64_t b = i / all, k = i % all / p.n, at = i % p.n;
    want[static_cast<std::size_t>(b * out[0] + k * out[1] + at * out[2] + 1)] =
        from[static_cast<std::size_t>(b * in[0] + k * in[1] + at * in[2] + 1)];
  }
  const auto plan = detail::plan_strided<2>(shape, {&out, &in}, detail::AxisOrder::free);
  if (!detail::interleave_on_cpu(plan, to.data() + 1, from.data() + 1, sizeof(T)))
    return -1;
  int wrong = 0;
  for (std::size_t i = 0; i < to.size(); ++i)
    wrong += to[i] != want[i];
  return wrong;
}

template <class T>
void check_planes() {
  for (const std::int64_t n : {15, 16, 17, 31, 33, 2047, 2048, 2049, 4097}) {
    for (std::int64_t count = 1; count <= 9; ++count) {
      for (const bool together : {true, false}) {
        CAPTURE(sizeof(T), n, count, together);
        const int taken = n >= 16 && count >= 2 && count <= 7 ? 0 : -1;
        CHECK(wrong_in_planes<T>({1, count, n, 0, n, together}) == taken);
        CHECK(wrong_in_planes<T>({3, count, n, 5, n + 3, together}) == taken);
      }
      if (count >= 2 && count <= 7 && n >= 16)  // one plane over and over
        CHECK(wrong_in_planes<T>({2, count, n, 0, 0, true}) == 0);
    }
  }
}

TEST_CASE("copies that bring a few planes together or part them move every element", "[ndarray][copy]") {
  check_planes<std::uint8_t>();
  check_planes<std::uint16_t>();
  check_planes<std::uint32_t>();
  check_planes<std::uint64_t>();
}

TEST_CASE("images change between planes and pixels, cut out and turned around too", "[ndarray][copy]") {
  const NDArray x = arange(0, 2 * 5 * 20 * 24).reshape({2, 5, 20, 24});
  const NDArray views[] = {
      x.slice(1, 1, 4), x.slice(1, 4, 1, -1), x.slice(1, 0, 5, 2), x.slice(3, 2, 21), x.slice(2, 19, 0, -1)};
  for (const NDArray& planes : views) {
    const Shape& shape = planes.shape();
    CAPTURE(shape, planes.strides());
    const NDArray pixels = planes.transpose({0, 2, 3, 1}).copy();
    const NDArray back = pixels.transpose({0, 3, 1, 2}).copy();
    const NDArray wide = planes.astype(int64);  // by another way
    CHECK(back.to_vector<float>() == wide.astype(float32).to_vector<float>());
    CHECK(pixels.astype(int64).transpose({0, 3, 1, 2}).to_vector<std::int64_t>() == wide.to_vector<std::int64_t>());
  }
}

TEST_CASE("transposed views of every order are copied right", "[ndarray][copy]") {
  std::vector<float> values(12 * 9 * 33 * 10);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  const NDArray x = array(values, {12, 9, 33, 10});
  const Shape orders[] = {{3, 2, 1, 0}, {0, 2, 1, 3}, {0, 3, 2, 1}, {2, 0, 3, 1}, {1, 3, 0, 2}};
  for (const Shape& order : orders) {
    CAPTURE(order);
    const NDArray y = x.transpose(order).copy();
    const auto got = y.to_vector<float>();
    std::size_t wrong = 0, at = 0;
    const std::int64_t steps[] = {9 * 33 * 10, 33 * 10, 10, 1};
    const Shape& shape = y.shape();
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        for (std::int64_t k = 0; k < shape[2]; ++k) {
          for (std::int64_t l = 0; l < shape[3]; ++l, ++at) {
            const std::int64_t from =
                i * steps[order[0]] + j * steps[order[1]] + k * steps[order[2]] + l * steps[order[3]];
            wrong += got[at] != static_cast<float>(from);
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}

template <class T>
int wrong_widened() {
  std::vector<T> from(65536);
  std::vector<float> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i].bits = static_cast<std::uint16_t>(i);
  simd::convert(from.data(), to.data(), static_cast<std::int64_t>(from.size()));
  int wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float want = from[i];
    wrong += want != want ? to[i] == to[i] : std::bit_cast<std::uint32_t>(to[i]) != std::bit_cast<std::uint32_t>(want);
  }
  return wrong;
}

// Floats at and beside the middle between neighbours, and beyond what the type holds.
template <class T>
int wrong_narrowed(std::int64_t offset, std::int64_t n) {
  std::vector<float> from;
  for (std::uint32_t bits = 0; bits < 65536; bits += 3) {
    T here;
    here.bits = static_cast<std::uint16_t>(bits);
    const auto wide = std::bit_cast<std::uint32_t>(static_cast<float>(here));
    for (const std::uint32_t near : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      from.push_back(std::bit_cast<float>(wide + near));
  }
  from.insert(from.end(), {1e-45f, -1e-45f, 3e38f, -3e38f, 65504.0f, 65519.99f, 65520.0f, 5.9e-8f, 2.9e-8f, 3.0e-8f});
  if (n < 0)
    n = static_cast<std::int64_t>(from.size()) - offset;
  std::vector<T> to(static_cast<std::size_t>(n) + 1);
  to.back().bits = 0x1234;
  simd::convert(from.data() + offset, to.data(), n);
  int wrong = to.back().bits != 0x1234;
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = from[static_cast<std::size_t>(offset + i)], y = to[static_cast<std::size_t>(i)];
    wrong += x != x ? y == y : to[static_cast<std::size_t>(i)].bits != T(x).bits;
  }
  return wrong;
}

TEST_CASE("half types are widened and narrowed alike on every instruction set", "[ndarray][simd]") {
  for (const Target target : targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(static_cast<int>(target));
    CHECK(wrong_widened<Half>() == 0);
    CHECK(wrong_widened<BFloat16>() == 0);
    CHECK(wrong_narrowed<Half>(0, -1) == 0);
    CHECK(wrong_narrowed<BFloat16>(0, -1) == 0);
    for (std::int64_t n = 0; n <= 33; ++n) {
      CHECK(wrong_narrowed<Half>(7 * n + 1, n) == 0);
      CHECK(wrong_narrowed<BFloat16>(7 * n + 1, n) == 0);
    }
  }
}

}  // namespace
}  // namespace sluice
