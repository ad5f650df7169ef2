// First layers of half types on a GPU: pixels in pairs, read by tensor cores out of rows in shared memory.
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/fused_convolutions.h"
#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Layer {
  Shape x, weight;
  Shape pad{0, 0}, stride{2, 2};
};

// Results and the weight's gradient.
Arrays results(const Layer& layer, const NDArray& x, const NDArray& w, DType dtype, Device device) {
  NDArray there = x.astype(dtype).to(device), weight = w.astype(dtype).to(device);
  weight.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = convolution(there, weight, {}, {.stride = layer.stride, .pad = layer.pad});
  }
  y.backward(draw(y.shape(), 3, bfloat16, cpu()).astype(dtype).to(device));
  return {y.to(cpu()).astype(float64), weight.grad().to(cpu()).astype(float64)};
}

// Against the CPU's in float64 of the same numbers, which bfloat16 holds as well.
void check_layers(const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    const NDArray x = draw(layer.x, 1, bfloat16, cpu()), w = draw(layer.weight, 2, bfloat16, cpu());
    const Arrays wanted = results(layer, x, w, float64, cpu());
    for (const DType dtype : {float16, bfloat16}) {
      CAPTURE(to_string(layer.x), to_string(layer.weight), name_of(dtype));
      const Arrays made = results(layer, x, w, dtype, gpu());
      CHECK(differences(made[0], wanted[0], sum_tolerance(dtype)) == "");
      const double rounding = dtype == float16 ? 0x1p-11 : 0x1p-8, largest = max(abs(wanted[1])).item<double>();
      CHECK(differences(made[1], wanted[1], {rounding, 2e-6 * largest + 1e-6}) == "");
      CHECK((all_bytes(results(layer, x, w, dtype, gpu())) == all_bytes(made)));
    }
  }
}

}  // namespace

// One block has rows of several images, or several blocks rows of one; rows of one tile or more; a kernel of which the
// last pair of pixels is none of it, or is.
TEST_CASE("First layers of half types end where their rows and images end", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_layers({
      {{40, 3, 40, 64}, {64, 3, 7, 7}, {3, 3}},
      {{2, 3, 224, 224}, {64, 3, 7, 7}, {3, 3}},
      {{6, 3, 200, 512}, {64, 3, 7, 7}, {3, 3}},
      {{3, 1, 67, 98}, {16, 1, 3, 7}, {2, 3}},
      {{2, 4, 64, 66}, {8, 4, 3, 2}, {0, 0}},
      {{2, 3, 70, 134}, {64, 3, 7, 8}, {1, 2}},
      {{70, 2, 9, 70}, {24, 2, 3, 5}, {4, 1, 0, 6}},
      {{3, 3, 33, 447}, {40, 3, 7, 6}, {0, 3}},
      {{1, 3, 64, 320}, {32, 3, 3, 3}, {1, 1}},
      {{300, 3, 3, 64}, {64, 3, 3, 3}, {1, 0}},
  });
}
TEST_CASE("First layers one past what their kernels take give the same", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_layers({
      {{2, 5, 40, 80}, {64, 5, 7, 7}, {3, 3}},
      {{2, 3, 40, 80}, {72, 3, 7, 7}, {3, 3}},
      {{2, 3, 40, 80}, {64, 3, 5, 7}, {3, 3}},
      {{2, 3, 40, 80}, {64, 3, 7, 9}, {3, 4}},
      {{2, 3, 40, 60}, {64, 3, 7, 7}, {3, 3}},
      {{2, 3, 40, 80}, {64, 3, 7, 7}, {3, 3}, {2, 1}},
      {{2, 3, 40, 80}, {64, 3, 7, 7}, {3, 3}, {1, 2}},
      {{1, 3, 30, 2100}, {64, 3, 7, 7}, {3, 3}},
  });
}
TEST_CASE("Scales, shifts and relu follow a first layer", "[conv][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float16, bfloat16}) {
    const NDArray x = draw({2, 3, 64, 90}, 1, dtype, cpu()), w = draw({40, 3, 7, 7}, 2, dtype, cpu());
    for (const int which : {0, 1, 2, 3, 7}) {
      for (const char* activation : {"", "relu"}) {
        CAPTURE(name_of(dtype), which, activation);
        const ConvolutionOptions options{.stride = {2, 2}, .pad = {3, 3}, .activation = activation};
        const auto then = [&](Device device) { return epilogue_of(which, {2, 40, 32, 45}, dtype, device); };
        ConvolutionEpilogue wide = then(cpu());
        if (wide.residual.defined())
          wide.residual = wide.residual.astype(float32);
        const NDArray wanted = convolution_fused(x.astype(float32), w.astype(float32), wide, options);
        const NDArray made = convolution_fused(x.to(gpu()), w.to(gpu()), then(gpu()), options);
        CHECK(differences(made.to(cpu()), wanted.astype(float64), sum_tolerance(dtype)) == "");
      }
    }
  }
}

// Tensor cores multiply the pixel beside a kernel of odd width by 0, and a channel that is none.
TEST_CASE("NaN and infinity beside a first layer's kernel do not reach its sums", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray x = draw({2, 3, 40, 129}, 1, float16, cpu());
  x.slice(2, 3, 4).slice(3, 60, 61).assign(NAN);
  x.slice(2, 20, 21).slice(1, 1, 2).slice(3, 127, 129).assign(INFINITY);
  x.slice(0, 1, 2).slice(2, 39, 40).slice(3, 0, 1).assign(-INFINITY);
  const NDArray w = draw({64, 3, 7, 7}, 2, float16, cpu());
  for (const DType dtype : {float16, bfloat16}) {
    const ConvolutionOptions options{.stride = {2, 2}, .pad = {3, 3}};
    const NDArray a = x.astype(dtype), b = w.astype(dtype);
    const NDArray wanted = convolution(a.astype(float64), b.astype(float64), {}, options);
    const NDArray made = convolution(a.to(gpu()), b.to(gpu()), {}, options);
    CHECK(differences(made.to(cpu()).astype(float64), wanted, sum_tolerance(dtype)) == "");
  }
}

// What comes before takes long enough that the layer's blocks are there before it has ended.
TEST_CASE("A first layer's pixels, weight and heads are read when they are made", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shape{16, 3, 128, 128};
  const NDArray xs[] = {draw(shape, 1, float16, gpu()), draw(shape, 2, float16, gpu())};
  const NDArray w = draw({64, 3, 7, 7}, 3, float16, gpu());
  const auto both = [&](const NDArray& x) {
    const NDArray made = tanh(x * x + 1.0);
    NDArray weight = tanh(w + mean(x));
    weight.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = convolution(made, weight, {}, {.stride = {2, 2}, .pad = {3, 3}});
    }
    y.backward(tanh(y));
    return Arrays{y, weight.grad()};
  };
  graph::Tracer tracer;
  const NDArray given = tracer.input({shape, float16, gpu()});
  graph::Plan plan(tracer.trace([&] { return both(given); }), {.optimise = false});
  for (int run = 0; run < 6; ++run) {
    CAPTURE(run);
    const NDArray& x = xs[run % 2];
    CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(both(x))));
  }
}
