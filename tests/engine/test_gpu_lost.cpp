// A kernel's illegal address takes the whole process's GPU with it, so each case has a process of its own.
#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void push_store(Engine& engine, const TaskName& name, const Var& x, std::uint64_t* word) {
  engine.push({.name = name, .device = gpu(0), .access = {write(x)}}, [word](Queue queue) {
    enqueue_store(queue.stream(), word, 1);
  });
}

std::uint64_t* nowhere() {
  return reinterpret_cast<std::uint64_t*>(std::uintptr_t{64});
}

}  // namespace

TEST_CASE("T50: a kernel's illegal address loses the GPU for GPU tasks, and nothing else", "[gpu][lost]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(run_case_alone("[lost-by-address]") == 0);
}

TEST_CASE("In a process of its own: an illegal address", "[.child][lost-by-address]") {
  if (!runs_alone())  // "~[tag]" selects hidden cases too
    SLUICE_SKIP("it would take the GPU from the others");
  prepare_gpus();
  PinnedArray<std::uint64_t> words(1);
  bool on_cpu = false;
  {
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    push_store(engine, "suspect", x, nowhere());
    expect_error<DeviceLost>(
        [&] { engine.wait(x); },
        [](const DeviceLost& error) {
          CHECK_THAT(error.what(), contains("gpu(0)"));
          CHECK_THAT(error.what(), contains("suspect"));
          CHECK_THAT(error.what(), contains("test_gpu_lost.cpp"));
        });
    engine.push({.name = "CPU", .access = {write(y)}}, [&] { on_cpu = true; });
    CHECK_NOTHROW(engine.wait(y));
    push_store(engine, "after", z, words.data());
    CHECK_THROWS_AS(engine.wait(z), DeviceLost);
  }
  CHECK(on_cpu);
  Engine another({.workers = 1});
  Var x = another.new_var();
  push_store(another, "another engine's", x, words.data());
  CHECK_THROWS_AS(another.wait(x), CudaError);
  another.push({.name = "CPU"}, [&] { on_cpu = false; }).wait();
  CHECK_FALSE(on_cpu);
}

TEST_CASE("T50: gpu_check = each names the one task whose kernel failed", "[gpu][lost]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK(run_case_alone("[lost-with-check-each]") == 0);
}

TEST_CASE("In a process of its own: an illegal address under gpu_check = each", "[.child][lost-with-check-each]") {
  if (!runs_alone())  // "~[tag]" selects hidden cases too
    SLUICE_SKIP("it would take the GPU from the others");
  prepare_gpus();
  PinnedArray<std::uint64_t> words(1);
  Engine engine({.workers = 1, .gpu_check = GpuCheck::each});
  Var before = engine.new_var(), bad = engine.new_var(), after = engine.new_var();
  push_store(engine, "before", before, words.data());
  push_store(engine, "culprit", bad, nowhere());
  push_store(engine, "after", after, words.data());
  CHECK_NOTHROW(engine.wait(before));
  expect_error<DeviceLost>(
      [&] { engine.wait(bad); },
      [](const DeviceLost& error) {
        CHECK_THAT(error.what(), contains("culprit"));
        CHECK_THAT(error.what(), !contains("before"));
        CHECK_THAT(error.what(), !contains("after"));
      });
  CHECK_THROWS_AS(engine.wait(after), DeviceLost);
}
