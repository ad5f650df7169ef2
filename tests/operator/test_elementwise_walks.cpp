// Elementwise operators on a GPU whose operands are no runs of vectors: neighbours along different axes, odd rows,
// misaligned and strided views. Sizes go past each limit of the walks: tiles, groups of tiles, streams, 32 bits.
#include <functional>
#include <utility>
#include <vector>

#include <sluice/operator/elementwise/elementwise.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using View = std::function<NDArray(const NDArray&)>;

/// What is drawn, and how it is seen.
struct Operand {
  Shape drawn;
  View view = [](const NDArray& x) { return x; };
};

struct Layout {
  const char* name;
  Operand a, b;
};

const View k_turned = [](const NDArray& x) { return x.T(); };

Operand turned(std::int64_t rows, std::int64_t columns) {
  return {{columns, rows}, k_turned};
}
View axes(const Shape& order) {
  return [order](const NDArray& x) { return x.transpose(order); };
}
View every_second(int axis) {
  return [axis](const NDArray& x) { return x.slice(axis, 1, x.shape()[axis], 2); };
}

std::vector<Layout> layouts() {
  return {
      {"one turned, one tile", {{32, 32}}, turned(32, 32)},
      {"one turned, parts of tiles", {{65, 47}}, turned(65, 47)},
      {"one turned, groups of tiles and a rest", {{300, 40}}, turned(300, 40)},
      {"one turned, one wide tile", {{64, 64}}, turned(64, 64)},
      {"one turned, groups of wide tiles and a rest", {{529, 67}}, turned(529, 67)},
      {"one turned, long rows", {{17, 1000}}, turned(17, 1000)},
      {"turned, with an axis too short for tiles", {{15, 200}}, turned(15, 200)},
      {"turned, the other axis too short", {{200, 15}}, turned(200, 15)},
      {"turned and a row", turned(70, 50), {{50}}},
      {"turned and a column", turned(70, 50), {{70, 1}}},
      {"a turned part of a larger array",
       {{40, 100}},
       {{120, 45}, [](const NDArray& x) { return x.slice(0, 7, 107).slice(1, 3, 43).T(); }}},
      {"pairs, parts of tiles", {{66, 70}}, turned(66, 70)},
      {"pairs, groups of tiles and a rest", {{1042, 18}}, turned(1042, 18)},
      {"both turned, in pairs", turned(130, 66), turned(130, 66)},
      {"pairs beside every second element", turned(70, 50), {{70, 100}, every_second(1)}},
      {"an odd number of lines", turned(71, 50), {{71, 50}}},
      {"an odd number of lines out of even ones",
       {{71, 50}},
       {{50, 72}, [](const NDArray& x) { return x.slice(1, 0, 71).T(); }}},
      {"lines of odd length", turned(70, 51), {{70, 51}}},
      {"a turned part that begins at a pair",
       {{40, 100}},
       {{120, 46}, [](const NDArray& x) { return x.slice(0, 7, 107).slice(1, 2, 42).T(); }}},
      {"a turned part that begins within a pair",
       {{40, 100}},
       {{120, 46}, [](const NDArray& x) { return x.slice(0, 7, 107).slice(1, 3, 43).T(); }}},
      {"turned beside what begins within a pair",
       {{42, 102}, [](const NDArray& x) { return x.slice(0, 1, 41).slice(1, 1, 101); }},
       turned(40, 100)},
      {"images at odd distances, in turned planes",
       {{3, 20, 18}, [](const NDArray& x) { return x; }},
       {{3, 19, 20},
        [](const NDArray& x) {
          return x.slice(1, 0, 18).transpose({0, 2, 1});
        }}},
      {"channels moved, beside channels first", {{3, 20, 6, 7}}, {{3, 6, 7, 20}, axes({0, 3, 1, 2})}},
      {"channels moved last", {{2, 5, 8, 33}}, {{2, 33, 5, 8}, axes({0, 2, 3, 1})}},
      {"two kinds of turning", {{18, 20, 22}, axes({2, 1, 0})}, {{22, 18, 20}, axes({0, 2, 1})}},
      {"many axes, no room for groups",
       {{2, 2, 2, 2, 2, 2, 17, 40}, axes({1, 0, 3, 2, 5, 4, 6, 7})},
       {{2, 2, 2, 2, 2, 2, 40, 17}, axes({0, 2, 1, 4, 3, 5, 7, 6})}},
      {"odd rows and a row", {{37, 101}}, {{101}}},
      {"odd rows and a column", {{37, 101}}, {{37, 1}}},
      {"fewer rows than streams", {{3, 777}}, {{777}}},
      {"misaligned", {{1029}, [](const NDArray& x) { return x.slice(0, 1, 1029); }}, {{1028}}},
      {"every second element", {{9, 130}, every_second(1)}, {{9, 65}}},
      {"every second row", {{19, 33}, every_second(0)}, {{9, 33}}},
      {"one element", {{1}}, {{3}, [](const NDArray& x) { return x.slice(0, 2, 3); }}},
  };
}

std::vector<Operand> turned_sources() {
  return {
      {{128, 128}, k_turned},  // one tile of halves, four of floats
      {{72, 520}, k_turned},   // whole vectors, parts of tiles, a group with a rest
      {{520, 72}, k_turned},
      {{1040, 16}, k_turned},
      {{131, 517}, k_turned},  // odd rows
      {{132, 300}, k_turned},  // vectors of floats, not of halves
      {{200, 130}, [](const NDArray& x) { return x.slice(0, 8, 200).slice(1, 1, 129).T(); }},  // misaligned
      {{3, 24, 16, 8}, axes({0, 2, 3, 1})},
      {{2, 70, 9, 7}, axes({2, 0, 3, 1})},
  };
}

NDArray drawn(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, is_unsigned(dtype) || dtype == bool_ ? 0 : -9, 9, dtype);
}

Tolerance loose(DType dtype) {
  const Tolerance t = tolerance_of(dtype);
  return is_floating(dtype) ? Tolerance{4 * t.relative, 4 * t.absolute} : Tolerance{0, 0};
}

}  // namespace

TEST_CASE(
    "operands whose neighbours lie anyhow give on a GPU what they give on the CPU", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Layout& layout : layouts()) {
    for (const DType dtype : k_every_dtype) {
      const NDArray a = drawn(layout.a.drawn, 1, dtype), b = drawn(layout.b.drawn, 2, dtype);
      const NDArray on_a = a.to(gpu()), on_b = b.to(gpu());
      CAPTURE(layout.name, dtype);
      const auto check = [&](const std::function<NDArray(const NDArray&, const NDArray&)>& f) {
        const NDArray want = f(layout.a.view(a), layout.b.view(b));
        CHECK(differences(f(layout.a.view(on_a), layout.b.view(on_b)), want, loose(want.dtype())) == "");
        CHECK(
            differences(
                f(layout.b.view(on_b), layout.a.view(on_a)),
                f(layout.b.view(b), layout.a.view(a)),
                loose(want.dtype())) == "");
      };
      check([](const NDArray& x, const NDArray& y) { return maximum(x, y); });
      check([](const NDArray& x, const NDArray& y) { return x < y; });
      check([](const NDArray& x, const NDArray& y) { return where(x < y, y, x); });
    }
  }
}

TEST_CASE("copies of turned arrays on a GPU hold every element in its place", "[operator][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_every_dtype) {
    for (const auto& source : turned_sources()) {
      const NDArray x = random_array(source.drawn, 3, 0, 100, dtype);
      CAPTURE(dtype, source.drawn);
      CHECK(differences(source.view(x.to(gpu())).copy(), source.view(x).copy(), {0, 0}) == "");
    }
  }
}

// Counts of planes that have a kernel and one more, whole vectors of 16 bytes and not, arrays within others.
TEST_CASE("a few planes of a GPU's array are brought together and parted again", "[operator][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {uint8, float16, float32, float64}) {
    for (const std::int64_t planes : {2, 3, 4, 5}) {
      for (const std::int64_t width : {16, 24, 27}) {
        CAPTURE(dtype, planes, width);
        const NDArray x = random_array({3, planes, 6, width}, 5, 0, 100, dtype), on_gpu = x.to(gpu());
        const NDArray last = x.transpose({0, 2, 3, 1}).copy(), last_there = on_gpu.transpose({0, 2, 3, 1}).copy();
        CHECK(differences(last_there, last, {0, 0}) == "");
        CHECK(differences(last_there.transpose({0, 3, 1, 2}).copy(), x, {0, 0}) == "");
        for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{2, 5}, {1, 4}}) {
          const auto part = [&, from = begin, to = end](const NDArray& all) {
            return all.slice(2, from, to).transpose({0, 2, 3, 1}).copy();
          };
          CHECK(differences(part(on_gpu), part(x), {0, 0}) == "");
        }
        NDArray into = zeros({3, 6, width + 8, planes}, {.dtype = dtype, .device = gpu()});
        into.slice(2, 8, width + 8).assign(on_gpu.transpose({0, 2, 3, 1}));
        CHECK(differences(into.slice(2, 8, width + 8).copy(), last, {0, 0}) == "");
        CHECK(sum(into.slice(2, 0, 8).astype(float64)).item<double>() == 0);
      }
    }
  }
}

// Rows, planes and arrays that begin off 16 bytes, whatever else is whole: nothing of them may be read as vectors.
TEST_CASE("a few planes of a GPU's array that lie within wider ones are brought together", "[operator][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr std::int64_t n = 16;
  for (const DType dtype : {uint8, float16, float32}) {
    for (const std::int64_t planes : {2, 3, 4}) {
      for (const std::int64_t begin : {0, 1, 3}) {
        for (const std::int64_t pitch : {19, 48}) {
          CAPTURE(dtype, planes, begin, pitch);
          const auto within = [&](const NDArray& x, int axis) { return x.slice(axis, begin, begin + n); };
          const auto check = [&](const Shape& shape, int axis, const Shape& order) {
            const NDArray x = random_array(shape, 5, 0, 100, dtype);
            const NDArray made = within(x.to(gpu()), axis).transpose(order).copy();
            const NDArray wanted = within(x, axis).transpose(order).copy();
            CHECK(differences(made, wanted, {0, 0}) == "");
            NDArray into = zeros(shape, {.dtype = dtype, .device = gpu()}), beside = into.slice(axis, begin + n, pitch);
            within(into, axis).transpose(order).assign(made);
            CHECK(differences(within(into, axis).copy(), within(x, axis).copy(), {0, 0}) == "");
            CHECK(sum(beside.astype(float64)).item<double>() == 0);
          };
          check({2, planes, 3, pitch}, 3, {0, 2, 3, 1});
          check({1, planes, pitch}, 2, {0, 2, 1});
          check({2, 3, pitch, planes}, 2, {0, 3, 1, 2});
        }
      }
    }
  }
}

// Each of the smallest tiles that are worth it, so that there are many of few elements.
TEST_CASE("blocks that have more tiles than one go on to the next", "[operator][elementwise][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = drawn({65540, 16, 20}, 1, int8), y = drawn({65540, 18, 16}, 2, int8);
  const View turned_planes = [](const NDArray& all) { return all.slice(2, 0, 18).transpose({0, 2, 1}); };
  const NDArray on_x = turned_planes(x.to(gpu())), on_y = y.to(gpu());
  CHECK(differences(abs(on_x), abs(turned_planes(x)), {0, 0}) == "");
  CHECK(differences(maximum(on_x, on_y), maximum(turned_planes(x), y), {0, 0}) == "");
}

TEST_CASE("a gradient of operands that are turned reads up to four of them", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto gradients = [](NDArray a, NDArray b, const NDArray& head) {
    a.attach_grad();
    b.attach_grad();
    {
      const autograd::RecordScope record;
      hypot(a.T(), b.T()).backward(head.T());
    }
    return std::vector<NDArray>{a.grad(), b.grad()};
  };
  for (const DType dtype : {float16, float32, float64}) {
    const NDArray a = drawn({50, 70}, 1, dtype), b = drawn({50, 70}, 2, dtype), head = drawn({50, 70}, 3, dtype);
    const auto want = gradients(a.copy(), b.copy(), head), got = gradients(a.to(gpu()), b.to(gpu()), head.to(gpu()));
    for (std::size_t k = 0; k < 2; ++k) {
      CAPTURE(dtype, k);
      CHECK(differences(got[k], want[k], loose(dtype)) == "");
    }
  }
}

TEST_CASE("results are written through views of any layout", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto written = [](NDArray to, const NDArray& a) {
    NDArray view = to.slice(1, 1, 91, 2).T();  // 45 x 70, steps of 2 where it is written along
    view += a;
    return to;
  };
  const NDArray to = drawn({70, 92}, 1, float32), a = drawn({45, 70}, 2, float32);
  CHECK(differences(written(to.to(gpu()), a.to(gpu())), written(to.copy(), a)) == "");
  // Neighbours along rows of `to`, read along the other axis: from a pair's first element on, from its second one on,
  // an odd number.
  for (const DType dtype : {float16, bfloat16, float32}) {
    for (const auto& [begin, count] : {std::pair{2, 46}, {3, 46}, {2, 45}}) {
      const auto into_columns = [first = begin, last = begin + count](NDArray target, const NDArray& x) {
        NDArray view = target.slice(1, first, last);
        view *= x.T();
        return target;
      };
      const NDArray target = drawn({70, 92}, 3, dtype), x = drawn({count, 70}, 4, dtype);
      CAPTURE(dtype, begin, count);
      CHECK(differences(into_columns(target.to(gpu()), x.to(gpu())), into_columns(target.copy(), x)) == "");
    }
  }
}

TEST_CASE("one operand that is turned, and numbers beside it", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float16, bfloat16, float32, float64, int16, int8}) {
    for (const Shape& shape : {Shape{64, 64}, Shape{16, 16}, Shape{66, 130}, Shape{65, 130}, Shape{130, 67}}) {
      const NDArray x = drawn(shape, 5, dtype), on_gpu = x.to(gpu());
      CAPTURE(dtype, shape);
      CHECK(differences(abs(on_gpu.T()), abs(x.T()), {0, 0}) == "");
      CHECK(differences(on_gpu.T() - 2, x.T() - 2, {0, 0}) == "");
      CHECK(differences(3 - on_gpu.T(), 3 - x.T(), {0, 0}) == "");
    }
  }
}
