// amp::autocast(): scopes that stay open for long, and that end in any order.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/autocast.h>
#include <sluice/storage/storage.h>

#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray some(const Shape& shape, double start = 1) {
  return sin(arange(start, start + static_cast<double>(shape.size())).astype(float32)).reshape(shape);
}

NDArray variable(const Shape& shape, double start = 1) {
  NDArray made = some(shape, start).copy();
  made.attach_grad();
  return made;
}

// What lives once `batches` batches have gone back in the scope that is open, each of variables of its own.
std::uint64_t live_after(int batches, const NDArray& w, std::vector<NDArray>* kept) {
  for (int i = 0; i < batches; ++i) {
    const NDArray x = variable({8, 64}, i);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(matmul(x, w));
    }
    loss.backward();
    if (kept != nullptr)
      kept->push_back(x);
  }
  Engine::current().wait_all();
  return memory_stats(cpu()).allocated;
}

}  // namespace

TEST_CASE("Backward within a scope computes in the types of a forward without", "[operator][amp]") {
  const NDArray x = some({6, 4});
  const auto gradient_of = [&](std::optional<DType> low) {
    const NDArray w = variable({5, 4}, 3);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(exp(matmul(x, w, false, true)));
    }
    const amp::AutocastScope scope(low);
    loss.backward();
    CHECK(amp::autocast_dtype() == low);
    return w.grad().to_vector<float>();
  };
  const std::vector<float> plain = gradient_of(std::nullopt);
  CHECK(gradient_of(bfloat16) == plain);
  CHECK(gradient_of(float16) == plain);
}

TEST_CASE("Scopes of autocast may end in another order than they began", "[operator][amp]") {
  const NDArray x = some({2, 4}), w = variable({4, 4});
  const auto type = [&] { return matmul(x, w).dtype(); };
  std::vector<std::unique_ptr<amp::AutocastScope>> scopes;
  for (const std::optional<DType> low : std::vector<std::optional<DType>>{float16, std::nullopt, bfloat16}) {
    scopes.push_back(std::make_unique<amp::AutocastScope>(low));
    type();  // the outermost one's casts
  }
  scopes[0].reset();
  CHECK(type() == bfloat16);
  scopes[2].reset();
  CHECK(type() == float32);
  {
    const auto inner = amp::autocast(float16);
    scopes[1].reset();
    CHECK(type() == float16);
  }
  CHECK_FALSE(amp::autocast_dtype());
  CHECK(type() == float32);
}

TEST_CASE("A scope around a training keeps no casts of samples that have gone", "[operator][amp]") {
  for (const auto low : {float16, bfloat16}) {
    const NDArray w = variable({64, 4}, 7);
    const auto cast = amp::autocast(low);
    const std::uint64_t few = live_after(3, w, nullptr);
    CHECK(live_after(20, w, nullptr) == few);
    std::vector<NDArray> kept;
    live_after(3, w, &kept);
    // A variable that somebody holds is cast as before, wherever the others' casts went.
    for (NDArray& x : kept) {
      const NDArray before = x.grad().copy();
      {
        const autograd::RecordScope record;
        const NDArray loss = sum(matmul(x, w));
        loss.backward();
      }
      CHECK(x.grad().to_vector<float>() == before.to_vector<float>());
    }
    kept.clear();
    CHECK(live_after(3, w, nullptr) == few);
  }
}
