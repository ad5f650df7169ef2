// Losses under amp::autocast(): logits of half types are read as they are, results are float32.
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/sink.h>

#include "tests/operator/counted_casts.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Losses {
  NDArray losses = {}, gradient = {}, second = {};
  int casts = 0;
};

// Under autocast, or as it was before: of logits that were cast.
Losses losses_of(const NDArray& half, const NDArray& labels, int axis, bool automatic) {
  Casts casts;
  NDArray logits = half.copy();
  logits.attach_grad();
  Losses made;
  {
    const CallSinkScope here(&casts);
    const auto scope = amp::autocast(bfloat16, automatic);
    const autograd::RecordScope record;
    made.losses = softmax_cross_entropy(automatic ? logits : logits.astype(float32), labels, axis);
    const NDArray weighted = made.losses * made.losses;
    made.gradient = autograd::grad(std::vector{weighted}, std::vector{logits}, {}, {.create_graph = true})[0];
    sum(square(made.gradient.astype(float32))).backward();
  }
  made.second = logits.grad();
  made.casts = casts.count;
  return made;
}

void check_losses(Device device) {
  for (const DType half : {float16, bfloat16}) {
    for (const auto& [shape, axis] : {std::pair{Shape{5, 10}, 1}, {Shape{3, 700}, -1}, {Shape{4, 7, 6}, 1}}) {
      CAPTURE(half, shape);
      Shape rows = shape;
      rows.erase(axis < 0 ? shape.ndim() + axis : axis);
      const NDArray logits = random_array(shape, 3, -8, 8).astype(half).to(device);
      const NDArray labels = random_array(rows, 4, 0, 5.9).astype(int32).to(device);
      const Losses got = losses_of(logits, labels, axis, true), want = losses_of(logits, labels, axis, false);
      CHECK(got.losses.dtype() == float32);
      CHECK(got.gradient.dtype() == half);
      CHECK(got.casts < want.casts);
      CHECK(differences(got.losses.to(cpu()), want.losses.to(cpu()), {.relative = 1e-6}) == "");
      // What is rounded to a half type may be rounded to its neighbour.
      const double step = half == float16 ? 0x1p-10 : 0x1p-7;
      const auto near = [&](const NDArray& a, const NDArray& b, double steps) {
        const NDArray x = a.to(cpu()).astype(float32), y = b.to(cpu()).astype(float32);
        return differences(
                   x, y, {.relative = steps * step, .absolute = steps * step * max(abs(y)).item<double>() / 100}) == "";
      };
      CHECK(near(got.gradient, want.gradient, 1.01));
      CHECK(near(got.second, want.second, 20));
    }
  }
}

}  // namespace

TEST_CASE("Autocast reads half logits as they are: losses are those of casts", "[operator][amp]") {
  check_losses(cpu());
  const NDArray x = random_array({2, 3}, 5, -2, 2), labels = zeros({2}, {.dtype = int32});
  const auto scope = amp::autocast(bfloat16);
  CHECK(softmax_cross_entropy(x.astype(float64), labels).dtype() == float64);
  CHECK(softmax_cross_entropy(x, labels).dtype() == float32);
  CHECK_THROWS_AS(softmax_cross_entropy(x.astype(bfloat16), labels.astype(float32)), DTypeError);
  CHECK_THROWS_AS(softmax_cross_entropy(x.astype(bfloat16), full({2}, 3, {.dtype = int32})).wait_to_read(), IndexError);
}

TEST_CASE("Autocast reads half logits as they are on a GPU", "[operator][amp][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_losses(gpu());
}
