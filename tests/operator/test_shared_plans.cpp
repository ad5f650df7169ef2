// Plans of cuDNN's are an engine's, and run on whichever stream a task is on: the same convolution and its gradients
// from several threads, streams and engines at once give the bits of one stream that is waited for.
#include <barrier>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int k_threads = 4, k_rounds = 8;

struct Inputs {
  NDArray x, weight, head;

  explicit Inputs(DType dtype)
      : x(drawn({8, 32, 28, 28}, 1, dtype)),
        weight(drawn({64, 32, 3, 3}, 2, dtype)),
        head(drawn({8, 64, 28, 28}, 3, dtype)) {}
  static NDArray drawn(const Shape& shape, std::uint64_t seed, DType dtype) {
    return random_array(shape, seed, -1, 1, dtype).to(gpu());
  }
};

// The result and the gradients of both operands; of arrays of its own, so that nothing orders it behind another.
Arrays convolved(const Inputs& of) {
  NDArray x = of.x.copy(), weight = of.weight.copy();
  x.attach_grad();
  weight.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = convolution(x, weight, {}, {.pad = {1, 1}});
  }
  y.backward(of.head);
  return {y, x.grad(), weight.grad()};
}

std::vector<std::string> bytes_of(const Arrays& arrays) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays) {
    const NDArray here = array.to(cpu());
    const auto values = here.astype(float32).to_vector<float>();
    all.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return all;
}

// Empty if all rounds of all threads give the bits of `want`; otherwise what one of them gave.
std::string differences_of(
    const std::vector<std::unique_ptr<Engine>>& engines, DType dtype, const std::vector<std::string>& want) {
  std::barrier<> begin(k_threads);
  std::vector<std::string> found(k_threads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      const EngineScope scope(*engines[t % engines.size()]);
      const Inputs inputs(dtype);
      begin.arrive_and_wait();  // engines are new: the plans are made by those who come first, while others ask
      try {
        std::vector<Arrays> rounds;
        for (int round = 0; round < k_rounds; ++round)
          rounds.push_back(convolved(inputs));
        for (const Arrays& made : rounds) {
          if (bytes_of(made) != want)
            found[t] = message("other bits in thread ", t);
        }
      } catch (const std::exception& error) {
        found[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::string all;
  for (const std::string& of_thread : found)
    all += of_thread;
  return all;
}

}  // namespace

TEST_CASE(
    "Threads, streams and engines that share a convolution's plans get the bits of one stream",
    "[conv][plans][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16}) {
    std::vector<std::string> want;
    {
      Engine alone;
      const EngineScope scope(alone);
      want = bytes_of(convolved(Inputs(dtype)));
      REQUIRE(bytes_of(convolved(Inputs(dtype))) == want);
    }
    for (const std::size_t count : {1, 2, 4}) {
      CAPTURE(dtype, count);
      std::vector<std::unique_ptr<Engine>> engines;
      for (std::size_t i = 0; i < count; ++i)
        engines.push_back(std::make_unique<Engine>());
      CHECK(differences_of(engines, dtype, want) == "");
    }
  }
}
