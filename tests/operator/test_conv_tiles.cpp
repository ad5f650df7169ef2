// Convolutions of half types with what follows them by tiles on a GPU's tensor cores.
#include <thread>

#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/fused_convolutions.h"
#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// convolution() with a bias and relu, with one of them, and with a bias off 16 bytes.
void check_biased(const NDArray& x, const NDArray& w, ConvolutionOptions options) {
  const std::int64_t outputs = w.shape()[0];
  const NDArray biases = draw({outputs + 1}, 6, x.dtype(), cpu());
  for (const auto& [begin, activation] : {std::pair{0, "relu"}, {0, ""}, {1, "relu"}, {-1, "relu"}}) {
    CAPTURE(begin, activation);
    options.activation = activation;
    const auto of = [&](Device device, DType dtype) {
      const NDArray bias = begin < 0 ? NDArray() : biases.to(device).slice(0, begin, begin + outputs).astype(dtype);
      return convolution(x.to(device).astype(dtype), w.to(device).astype(dtype), bias, options);
    };
    CHECK(
        differences(of(gpu(), x.dtype()).to(cpu()), of(cpu(), float32).astype(float64), sum_tolerance(x.dtype())) ==
        "");
  }
}

// With all that may follow, against the CPU's in float32 of the same numbers.
void check_tiles(const std::vector<FusedConvolution>& cases, const std::vector<DType>& dtypes = {float16, bfloat16}) {
  for (const FusedConvolution& c : cases) {
    for (const DType dtype : dtypes) {
      CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
      const NDArray x = draw(c.x, 1, dtype, cpu()), w = draw(c.weight, 2, dtype, cpu());
      ConvolutionOptions options = c.options;
      options.activation = "relu";
      const Shape y = convolution(zeros(c.x), zeros(c.weight), {}, c.options).shape();
      const ConvolutionEpilogue then = epilogue_of(7, y, dtype, cpu());
      const ConvolutionEpilogue wide{then.scale, then.shift, then.residual.astype(float32)};
      const NDArray wanted = convolution_fused(x.astype(float32), w.astype(float32), wide, options);
      const ConvolutionEpilogue there{then.scale.to(gpu()), then.shift.to(gpu()), then.residual.to(gpu())};
      const NDArray made = convolution_fused(x.to(gpu()), w.to(gpu()), there, options);
      CHECK(differences(made.to(cpu()), wanted.astype(float64), sum_tolerance(dtype)) == "");
      const NDArray again = convolution_fused(x.to(gpu()), w.to(gpu()), there, options);
      CHECK(differences(again.to(cpu()), made.to(cpu())) == "");
    }
  }
}

// On a GPU as convolutions take it, whose channels are last: no copy goes before.
NDArray draw_last(const Shape& shape, std::uint64_t seed) {
  return draw(shape, seed, float16, gpu()).transpose({0, 3, 1, 2});
}

// By how many pixels and channels there are, and how many terms: tiles that end within an image or beside it, with
// steps fewer and more than a block keeps under way, of one block or of several that share it.
const std::vector<FusedConvolution> k_ending_tiles = {
    {{2, 64, 9, 7}, {136, 64, 1, 1}},
    {{1, 128, 12, 11}, {72, 128, 1, 1}, {.stride = {2, 1}}},
    {{3, 40, 5, 5}, {72, 40, 3, 3}, {.pad = {1, 1}}},
    {{2, 72, 7, 5}, {64, 72, 5, 3}, {.pad = {2, 0}, .dilation = {1, 2}}},
    {{1, 3, 31, 30}, {64, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3}}},
    {{2, 4, 11, 13}, {8, 4, 4, 5}, {.stride = {1, 2}, .pad = {2, 1, 0, 3}, .dilation = {2, 1}}},
    {{2, 1, 6, 9}, {16, 1, 3, 2}, {.stride = {2, 2}}},
    {{1, 20, 9, 9}, {8, 20, 1, 1}},
    // Few channels of which no two pixels are neighbours in what a result reads, or all are.
    {{1, 3, 9, 12}, {8, 3, 4, 5}, {.stride = {1, 2}, .dilation = {1, 2}}},
    {{1, 3, 9, 12}, {8, 3, 4, 5}, {.pad = {1, 1}}},
};

const std::vector<FusedConvolution> k_large_tiles = {
    {{1, 8, 93, 93}, {128, 8, 3, 3}},
    {{1, 64, 93, 93}, {136, 64, 3, 3}, {.pad = {1, 1}}},
    {{8, 256, 14, 14}, {256, 256, 3, 3}, {.pad = {1, 1}}},
    {{1, 200, 95, 94}, {64, 200, 3, 3}, {.pad = {0, 1}}},
    {{4, 64, 65, 65}, {264, 64, 3, 3}, {.stride = {1, 2}}},
    {{1, 264, 130, 130}, {520, 264, 1, 1}},
    {{1, 256, 14, 14}, {264, 256, 3, 3}, {.pad = {1, 1}}},
    {{1, 2048, 7, 7}, {512, 2048, 1, 1}},
};

const std::vector<FusedConvolution> k_ending_boxes = {
    {{2, 64, 45, 46}, {128, 64, 1, 1}},
    {{2, 40, 45, 46}, {136, 40, 3, 3}, {.pad = {1, 1}}},
    {{1, 72, 63, 65}, {200, 72, 1, 1}},
    {{3, 136, 91, 90}, {104, 136, 1, 1}, {.stride = {1, 2}}},
    {{4, 32, 130, 160}, {72, 32, 5, 3}, {.stride = {2, 3}, .pad = {3, 1}, .dilation = {2, 1}}},
    {{2, 48, 60, 61}, {72, 48, 1, 4}, {.pad = {0, 2, 0, 1}}},
    {{3, 256, 52, 52}, {256, 256, 3, 3}, {.pad = {1, 1}}},
    {{2, 136, 91, 92}, {392, 136, 3, 3}},
    {{1, 768, 62, 64}, {128, 768, 3, 3}, {.pad = {1, 1}}},
};

}  // namespace

TEST_CASE("Tiles of a convolution of a half type end where its result ends", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_tiles(k_ending_tiles);
}
TEST_CASE("Tiles of each extent hold every pixel and channel of a convolution of a half type", "[conv][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_tiles(
      {
          {{1, 8, 65, 131}, {64, 8, 1, 1}},   // too many for one turn of the smallest
          {{1, 8, 65, 131}, {128, 8, 1, 1}},  // and of narrow ones
      },
      {float16});
}
TEST_CASE("Large tiles of a convolution of a half type, of many steps", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_tiles(k_large_tiles);
}

// Of capability 9.0 a GPU copies boxes of terms by itself. Narrow tiles first, then wide ones, which there must be
// enough of, or many terms: tests of one block that has several tiles, and of rows and channels that fill neither.
TEST_CASE("Boxes of terms end where a convolution's pixels and channels end", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_tiles(k_ending_boxes);
}
TEST_CASE(
    "Boxes of terms lie as far beside an image as they can be told, and no further", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_tiles(
      {
          {{1, 64, 64, 64}, {128, 64, 3, 3}, {.pad = {36, 36}, .dilation = {36, 36}}},
          {{1, 32, 20, 21}, {8, 32, 3, 3}, {.pad = {128, 128}, .dilation = {64, 64}}},
          {{1, 32, 20, 21}, {8, 32, 3, 3}, {.pad = {129, 128}, .dilation = {64, 64}}},
          {{1, 32, 140, 21}, {8, 32, 2, 3}, {.pad = {128, 128}, .dilation = {255, 100}}},
          {{1, 32, 140, 21}, {8, 32, 2, 3}, {.pad = {128, 128}, .dilation = {256, 100}}},
          {{1, 32, 20, 21}, {8, 32, 1, 1}, {.pad = {50, 50, 127, 128}}},
          {{2, 32, 480, 490}, {40, 32, 1, 1}, {.stride = {8, 7}}},
          {{2, 32, 560, 490}, {40, 32, 1, 1}, {.stride = {9, 7}}},
      },
      {float16});
}
TEST_CASE("A bias and relu are part of tiles, boxes and first layers of a half type", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<FusedConvolution> first{{{2, 3, 70, 68}, {64, 3, 7, 7}, {.stride = {2, 2}, .pad = {3, 3}}}};
  for (const auto* cases : {&k_ending_tiles, &k_large_tiles, &k_ending_boxes, &first}) {
    for (const FusedConvolution& c : *cases) {
      for (const DType dtype : {float16, bfloat16}) {
        CAPTURE(to_string(c.x), to_string(c.weight), name_of(dtype));
        check_biased(draw(c.x, 1, dtype, cpu()), draw(c.weight, 2, dtype, cpu()), c.options);
      }
    }
  }
}
TEST_CASE("Scales off 16 bytes, and NaN and infinity, pass boxes of terms", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray w = draw({128, 64, 3, 3}, 2, float16, cpu());
  NDArray x = draw({1, 64, 65, 64}, 1, float16, cpu());
  x.slice(2, 3, 4).slice(3, 60, 64).assign(NAN);
  x.slice(2, 64, 65).slice(1, 5, 6).assign(INFINITY);
  for (const auto& [scale_begin, shift_begin] : {std::pair{0, 0}, {1, 0}, {0, 1}}) {
    CAPTURE(scale_begin, shift_begin);
    const NDArray scale = draw({130}, 3, float32, cpu()), shift = draw({130}, 4, float32, cpu());
    const auto then = [&](Device device) {
      const auto part = [&](const NDArray& all, std::int64_t begin) {
        return all.to(device).slice(0, begin, begin + 128);
      };
      return ConvolutionEpilogue{part(scale, scale_begin), part(shift, shift_begin)};
    };
    const ConvolutionOptions options{.pad = {1, 1}};
    const NDArray wanted = convolution_fused(x.astype(float32), w.astype(float32), then(cpu()), options);
    const NDArray made = convolution_fused(x.to(gpu()), w.to(gpu()), then(gpu()), options);
    CHECK(differences(made.to(cpu()), wanted.astype(float64), sum_tolerance(float16)) == "");
  }
}
TEST_CASE("Boxes of terms are followed by all, some or nothing of what may follow", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray x = draw({1, 64, 91, 92}, 1, float16, cpu());
  x.slice(2, 3, 4).slice(3, 60, 64).assign(NAN);
  const NDArray w = draw({72, 64, 1, 1}, 2, float16, cpu());
  for (const int which : {0, 1, 2, 4, 7}) {
    for (const char* activation : {"", "relu"}) {
      CAPTURE(which, activation);
      const ConvolutionOptions options{.activation = activation};
      const auto then = [&](Device device) { return epilogue_of(which, {1, 72, 91, 92}, float16, device); };
      ConvolutionEpilogue wide = then(cpu());
      if (wide.residual.defined())
        wide.residual = wide.residual.astype(float32);
      const NDArray wanted = convolution_fused(x.astype(float32), w.astype(float32), wide, options);
      const NDArray made = convolution_fused(x.to(gpu()), w.to(gpu()), then(gpu()), options);
      CHECK(differences(made.to(cpu()), wanted.astype(float64), sum_tolerance(float16)) == "");
    }
  }
  check_biased(x, w, {});
}

// The driver asks for a context, which a thread has once it has called CUDA's runtime: other kernels give other bits.
TEST_CASE("A thread's first call to CUDA copies boxes of terms like any other", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = draw_last({1, 96, 96, 72}, 1), w = draw_last({72, 3, 3, 72}, 2);
  const auto made = [&] { return convolution_fused(x, w, {}, {.pad = {1, 1}}); };
  NDArray here = made(), there;
  here = made();
  Engine::current().wait_all();
  std::thread([&] { there = made(); }).join();
  CHECK((all_bytes({there}) == all_bytes({here})));
}

// The first takes long enough, and leaves the second so much room, that this one begins beside it.
TEST_CASE("Boxes of terms and what is added to them are read when they are made", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray first = draw_last({64, 3, 3, 512}, 1), second = draw_last({64, 3, 3, 64}, 2);
  const auto both = [&](const NDArray& x) {
    const ConvolutionOptions options{.pad = {1, 1}};
    const NDArray between = convolution_fused(x, first, {}, options);
    return Arrays{convolution_fused(between, second, {.residual = between}, options)};
  };
  const NDArray xs[] = {draw_last({1, 96, 96, 512}, 3), draw_last({1, 96, 96, 512}, 4)};
  graph::Tracer tracer;
  const NDArray given = tracer.input({xs[0].shape(), float16, gpu()});
  graph::Plan plan(tracer.trace([&] { return both(given); }), {.optimise = false});
  for (int run = 0; run < 6; ++run) {
    CAPTURE(run);
    const NDArray& x = xs[run % 2];
    CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(both(x))));
  }
}
