// The launches of fused programs, walked on the CPU as the kernels walk them: every element once, at its place.
#include <array>
#include <map>
#include <random>
#include <set>

#include <sluice/operator/fused/layout.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

using fused::Args;
using fused::Layout;

constexpr int k_block_words = 5 + 3 * k_max_ndim;

/// Layout<K> of detail/kernels.h.
struct Walked {
  const Layout& layout;
  int operands;

  std::int32_t word(int at) const { return static_cast<std::int32_t>(layout.words[static_cast<std::size_t>(at)]); }
  std::int32_t next(int k) const { return word(k_block_words + k); }
  std::int32_t stride(int k, int axis) const { return word(k_block_words + operands + k * k_max_ndim + axis); }

  std::vector<std::int64_t> offsets(std::int32_t linear) const {
    std::vector<std::int64_t> of(static_cast<std::size_t>(operands));
    const int ndim = word(3);
    for (int axis = ndim - 1; axis >= 0; --axis) {
      const auto divisor = layout.words[static_cast<std::size_t>(5 + 3 * axis)];
      const std::uint64_t high =
          static_cast<std::uint64_t>(linear) * layout.words[static_cast<std::size_t>(6 + 3 * axis)];
      const auto quotient = static_cast<std::int32_t>(
          (static_cast<std::uint32_t>(high >> 32) + static_cast<std::uint32_t>(linear)) >>
          layout.words[static_cast<std::size_t>(7 + 3 * axis)]);
      const std::int32_t whole = axis == 0 ? 0 : quotient;
      const std::int32_t rest = linear - whole * static_cast<std::int32_t>(divisor);
      for (int k = 0; k < operands; ++k)
        of[static_cast<std::size_t>(k)] += static_cast<std::int64_t>(rest) * stride(k, axis);
      linear = whole;
    }
    return of;
  }
};

using Places = std::multiset<std::vector<std::int64_t>>;

Places places_of(const Layout& layout, const fused::KernelSource& source) {
  const Walked walked{layout, source.operands};
  Places places;
  for (std::int32_t i = 0; i < walked.word(0); ++i) {
    std::vector<std::int64_t> at = walked.offsets(i);
    const bool streams = layout.walk == fused::Walk::streams;
    const int whole = walked.word(2);
    const int count = !streams                                            ? source.neighbours
                      : i + (whole - 1) * walked.word(0) < walked.word(1) ? whole
                                                                          : whole - 1;
    for (int j = 0; j < count; ++j) {
      places.insert(at);
      for (int k = 0; k < source.operands; ++k) {
        const bool repeated = (layout.words[4] >> k & 1) != 0;
        at[static_cast<std::size_t>(k)] += streams ? walked.next(k) : repeated ? 0 : 1;
      }
    }
  }
  return places;
}

Places places_of(const Args& args, int operands) {
  Places places;
  std::vector<std::int64_t> index(static_cast<std::size_t>(args.plan.ndim));
  for (std::int64_t i = 0; i < args.plan.size; ++i) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(operands));
    std::int64_t rest = i;
    for (int axis = args.plan.ndim - 1; axis >= 0; --axis) {
      for (int k = 0; k < operands; ++k)
        at[static_cast<std::size_t>(k)] += rest % args.plan.extents[axis] * args.plan.strides[k][axis];
      rest /= args.plan.extents[axis];
    }
    places.insert(at);
  }
  return places;
}

TensorView view_of(void* data, const Shape& shape, const Shape& strides) {
  return {data, shape, strides, shape.size(), DType::float32, strides == contiguous_strides(shape)};
}

}  // namespace

TEST_CASE("A launch visits every element once, at its place in every operand", "[operator][fused]") {
  std::mt19937_64 generator(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(n));
  };
  alignas(64) static float memory[1 << 20];
  std::map<fused::Walk, int> seen;
  for (int round = 0; round < 400; ++round) {
    const std::int64_t inner[] = {1, 3, 4, 8, 17, 32};
    Shape shape;
    for (std::int64_t axes = below(4); axes > 0; --axes)
      shape.push_back(1 + below(6));
    shape.push_back(inner[below(6)]);
    fused::KernelSource source{"", 1, 3, 4, 4};
    std::vector<TensorView> inputs;
    for (int i = 0; i < 2; ++i) {
      Shape part;
      for (const std::int64_t extent : shape)
        part.push_back(below(4) == 0 ? 1 : extent);
      inputs.push_back(view_of(memory + 4 * below(2), part, contiguous_strides(part)));
      if (below(5) == 0)
        inputs.back().data = memory + 1;
    }
    const std::int64_t apart = below(4) == 0 ? 2 : 1;
    Shape strides;
    for (const std::int64_t stride : contiguous_strides(shape))
      strides.push_back(stride * apart);
    const TensorView output = view_of(memory, shape, strides);
    const Args args = fused::args_of("fused", {&output, 1}, inputs);
    const Layout layout = fused::layout_of(args, source);
    ++seen[layout.walk];
    CAPTURE(shape, static_cast<int>(layout.walk));
    REQUIRE(places_of(layout, source) == places_of(args, source.operands));
  }
  for (const auto walk : {fused::Walk::flat, fused::Walk::vectors, fused::Walk::streams})
    CHECK(seen[walk] >= 10);
}

TEST_CASE("Terms of a reduction are made of what stands at their places, together only where that fits", "[fused]") {
  std::mt19937_64 generator(9);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(n));
  };
  alignas(64) static float memory[1 << 16];
  constexpr int V = 4, inputs = 2;
  int together = 0;
  for (int round = 0; round < 400; ++round) {
    Shape shape;
    for (std::int64_t axes = below(4); axes > 0; --axes)
      shape.push_back(1 + below(5));
    shape.push_back(std::array{1, 3, 4, 8, 17}[static_cast<std::size_t>(below(5))]);
    const TensorView made{.shape = shape, .strides = contiguous_strides(shape), .size = shape.size()};
    std::vector<TensorView> views;
    for (int i = 0; i < inputs; ++i) {
      Shape part;
      for (const std::int64_t extent : shape)
        part.push_back(below(4) == 0 ? 1 : extent);
      views.push_back(view_of(memory + 1024 + below(6) / 5, part, contiguous_strides(part)));
    }
    const Args args = fused::args_of("fused_reduction", {&made, 1}, views);
    const fused::TermsLayout terms = fused::terms_layout_of(args, inputs, V);
    const Walked walked{terms.layout, inputs};
    CAPTURE(shape, terms.together);
    std::vector<std::vector<std::int64_t>> of;
    for (std::int32_t i = 0; i < made.size; ++i)
      of.push_back(walked.offsets(i));
    // As many elements of the program's shape, row by row.
    const Places wanted = places_of(args, 1 + inputs);
    Places got;
    for (std::size_t i = 0; i < of.size(); ++i)
      got.insert({static_cast<std::int64_t>(i), of[i][0], of[i][1]});
    REQUIRE(got == wanted);
    together += terms.together ? 1 : 0;
    for (std::size_t first = 0; terms.together && first + V <= of.size(); first += V) {
      for (std::size_t k = 0; k < inputs; ++k) {
        const bool repeated = (terms.layout.words[4] >> k & 1) != 0;
        const auto* const from = views[k].as<float>() + of[first][k];
        REQUIRE((repeated || reinterpret_cast<std::uintptr_t>(from) % (V * sizeof(float)) == 0));
        for (std::size_t j = 1; j < V; ++j)
          REQUIRE(of[first + j][k] == of[first][k] + (repeated ? 0 : static_cast<std::int64_t>(j)));
      }
    }
  }
  CHECK(together > 40);
  CHECK(together < 360);
}

TEST_CASE("Division by multiplication is exact", "[operator][fused]") {
  std::mt19937 generator(7);
  for (int round = 0; round < 20000; ++round) {
    const std::uint32_t divisor = 1 + (generator() >> (1 + generator() % 31)), n = generator() >> 1;
    const fused::Division by = fused::division_by(divisor);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * by.multiplier) >> 32);
    REQUIRE(((high + n) >> by.shift) == n / divisor);
  }
}
