// amp::autocast(): scopes that stay open for long, and that end in any order.
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/dlpack_abi.h>
#include <sluice/ndarray/dlpack.h>
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

// x w, whose w is cast.
struct Product {
  NDArray w, x;

  explicit Product(Device device = cpu()) : w(ones({2, 1}, {.device = device})), x(ones({1, 2}, {.device = device})) {
    w.attach_grad();
  }
  NDArray now() const { return matmul(x, w); }
  float value() const { return now().astype(float32).item<float>(); }
  void add(const NDArray& more) {
    const autograd::PauseScope unrecorded;
    w += more;
  }
};

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

TEST_CASE("A cast that could not be made is made again once the reason is forgiven", "[operator][amp]") {
  const auto scope = amp::autocast(bfloat16);
  Product product;
  CHECK(product.value() == 2);
  const NDArray bad = zeros({2, 1});
  Engine::current().push(
      {.name = "bad", .access = {write(bad.object()->buffer->var())}}, [] { throw std::runtime_error("out of luck"); });
  product.add(bad);
  for (int turn = 0; turn < 2; ++turn) {  // the second one's cast is of a variable that is known to have failed
    try {
      product.value();
      FAIL("the variable has failed");
    } catch (const Error& error) {
      if (turn == 1)
        CHECK(Engine::current().forgive(error));
    }
  }
  CHECK(product.value() == 2);
  product.add(ones({2, 1}));
  CHECK(product.value() == 4);
  try {
    Engine::current().wait_all();
  } catch (const Error&) {  // what was forgiven
  }
}

TEST_CASE("What another library writes is cast anew, while it has the memory and afterwards", "[operator][amp]") {
  const auto scope = amp::autocast(bfloat16);
  Product product;
  CHECK(product.value() == 2);
  DLManagedTensorVersioned* const lent = to_dlpack_versioned(product.w.detach());
  auto* const data = static_cast<float*>(lent->dl_tensor.data);
  for (const float each : {100.0F, 64.0F, 3.0F}) {
    data[0] = each;
    CHECK(product.value() == each + 1);
  }
  data[0] = 8;
  lent->deleter(lent);
  CHECK(product.value() == 9);
  CHECK(product.value() == 9);
  DLManagedTensor* const again = to_dlpack(product.w.detach());
  static_cast<float*>(again->dl_tensor.data)[0] = 16;
  again->deleter(again);
  CHECK(product.value() == 17);
}

TEST_CASE("What a region writes is cast anew, within it and outside", "[operator][amp][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto scope = amp::autocast(bfloat16);
  Product product(gpu());
  CHECK(product.value() == 2);  // before it is recorded
  const NDArray one = ones({2, 1}, {.device = gpu()}), y = zeros({1, 1}, {.dtype = bfloat16, .device = gpu()});
  Region region(Engine::current(), gpu(), "step");
  for (int step = 1; step < 5; ++step) {
    region.run(0, [&] {
      copy_into(product.now(), y);
      product.add(one);
    });
    CHECK(y.astype(float32).item<float>() == static_cast<float>(2 * step));
    CHECK(product.value() == static_cast<float>(2 * step + 2));
  }
}

TEST_CASE("A scope that another thread ends leaves this one with memory that is there", "[operator][amp]") {
  std::thread([] {
    auto scope = std::make_unique<amp::AutocastScope>(bfloat16);
    std::thread([&] { scope.reset(); }).join();
    const amp::AutocastScope none(std::nullopt);
    CHECK_FALSE(amp::autocast_dtype());
    CHECK(Product().value() == 2);
  }).join();
}
