// Kernels of regions that may begin before what they come after has ended, on the simulated CUDA runtime: a kernel that
// may and does not wait by itself is a violation there.
#include <string>

#include <sluice/engine/cuda/early_starts.h>

#include "tests/engine/sim_region.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::EarlyStarts;

namespace {

/// How a kernel says that it waits, and whether it does.
enum class Wait { none, noted, noted_and_done };

bool note(Queue queue) {
  EarlyStarts* const starts = EarlyStarts::on(static_cast<cudaStream_t>(queue.stream()));
  if (starts != nullptr)
    starts->note();
  return starts != nullptr;
}

void push_waiting(Chain& chain, Word value, Wait wait) {
  chain.engine.push(
      {.name = "append", .device = gpu(0), .access = {write(chain.x)}, .capturable = true},
      [&word = chain.word, value, wait](Queue queue) {
        sim_launch(queue, [&word, value, wait] {
          if (wait == Wait::noted_and_done)
            sim::kernel_waits();
          word = 3 * word + value;
        });
        if (wait != Wait::none)
          note(queue);
      });
}

const std::string k_violation = "a kernel that may begin early does not wait for what is before it";

}  // namespace

TEST_CASE("In a region the edges to kernels that wait themselves are programmatic", "[sim][region]") {
  Sim sim;
  Chain chain;
  Region region(chain.engine, gpu(0), "region");
  for (int i = 0; i < 3; ++i) {
    region.run(1, [&] {
      push_waiting(chain, 0, Wait::noted_and_done);
      push_waiting(chain, 1, Wait::noted_and_done);
      push_waiting(chain, 2, Wait::none);
      push_waiting(chain, 3, Wait::noted_and_done);
    });
  }
  chain.engine.wait(chain.x);
  CHECK(chain.word == Chain::expected(3, 4));
  CHECK(region.counts().captured == 1);
  CHECK(region.counts().launched == 3);
  CHECK(
      sim::calls("cudaGraphAddDependencies") == 2);  // before the first there is nothing, before the third a full edge
  CHECK(sim::violations().empty());
}

TEST_CASE("A kernel that is noted and does not wait is found out, the first of a graph is not early", "[sim][region]") {
  Sim sim;
  {
    Chain chain;
    Region region(chain.engine, gpu(0), "region");
    region.run(1, [&] { push_waiting(chain, 0, Wait::noted); });
    chain.engine.wait(chain.x);
    CHECK(sim::violations().empty());
    region.run(2, [&] {
      push_waiting(chain, 0, Wait::none);
      push_waiting(chain, 1, Wait::noted);
    });
    chain.engine.wait(chain.x);
  }
  CHECK(sim::violations().find(k_violation) != std::string::npos);
  sim::reset();
}

TEST_CASE("Only edges between kernels become programmatic", "[sim][region]") {
  Sim sim;
  Chain chain;
  Word* words = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&words), 2 * sizeof(Word)) == cudaSuccess);
  Region region(chain.engine, gpu(0), "region");
  region.run(1, [&] {
    chain.engine.push(
        {.name = "copy", .device = gpu(0), .access = {write(chain.x)}, .capturable = true}, [words](Queue queue) {
          cudaMemcpyAsync(
              words, words + 1, sizeof(Word), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(queue.stream()));
        });
    push_waiting(chain, 1, Wait::noted);  // comes after a copy: has no need to wait
  });
  chain.engine.wait(chain.x);
  CHECK(chain.word == 1);
  CHECK(region.counts().launched == 1);
  CHECK(sim::calls("cudaGraphAddDependencies") == 0);
  CHECK(sim::violations().empty());
  cudaFree(words);
}

TEST_CASE("Where branches join, each kernel's edge is programmatic", "[sim][region]") {
  Sim sim;
  Engine engine({.workers = 1});
  const Var a = engine.new_var(), b = engine.new_var();
  Word left = 0, right = 0, both = 0;
  Region region(engine, gpu(0), "region");
  region.run(1, [&] {
    push_append(engine, a, left, 5);
    push_append(engine, b, right, 7);
    engine.push(
        {.name = "join", .device = gpu(0), .access = {write(a), write(b)}, .capturable = true}, [&](Queue queue) {
          sim_launch(queue, [&] {
            sim::kernel_waits();
            both = left + right;
          });
          note(queue);
        });
  });
  engine.wait(a);
  CHECK(both == 12);
  CHECK(sim::calls("cudaGraphAddDependencies") == 2);
  CHECK(sim::violations().empty());
}

TEST_CASE("Where CUDA refuses a programmatic edge the region's tasks run one by one", "[sim][region]") {
  Sim sim;
  for (const char* call :
       {"cudaGraphNodeGetDependencies",
        "cudaGraphNodeGetType",
        "cudaGraphRemoveDependencies",
        "cudaGraphAddDependencies"}) {
    CAPTURE(call);
    Chain chain;
    Region region(chain.engine, gpu(0), "region");
    const auto run = [&] {
      region.run(1, [&] {
        push_waiting(chain, 0, Wait::noted_and_done);
        push_waiting(chain, 1, Wait::noted_and_done);
      });
      chain.engine.wait(chain.x);
    };
    sim::fail_nth(call, 1, cudaErrorNotSupported);
    run();
    run();
    CHECK(sim::failed_call() == call);
    CHECK(chain.word == Chain::expected(2, 2));
  }
  CHECK(sim::violations().empty());
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("What runs outside a region, or on another stream, is not noted", "[sim][region]") {
  Sim sim;
  Chain chain;
  bool noted = true;
  const auto push = [&] {
    chain.engine.push(
        {.name = "look", .device = gpu(0), .access = {write(chain.x)}, .capturable = true},
        [&noted](Queue queue) { noted = note(queue); });
  };
  push();
  chain.engine.wait(chain.x);
  CHECK_FALSE(noted);
  Region region(chain.engine, gpu(0), "region");
  region.run(1, push);
  chain.engine.wait(chain.x);
  CHECK(noted);
  CHECK(EarlyStarts::on(nullptr) == nullptr);

  const auto stream = [](std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); };
  const EarlyStarts outer(stream(1));
  {
    const EarlyStarts inner(stream(2));
    CHECK(EarlyStarts::on(stream(2)) == &inner);
    CHECK(EarlyStarts::on(stream(1)) == nullptr);
  }
  CHECK(EarlyStarts::on(stream(1)) == &outer);
}
