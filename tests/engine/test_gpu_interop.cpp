// CUDA streams of others beside the engine's.
#include <sluice/engine/interop.h>

#include "tests/engine/expect.h"
#include "tests/engine/gpu_work.h"
#include "tests/support/gate_cuda.h"

using namespace sluice;
using namespace sluice::test;

using PinnedWords = PinnedArray<std::uint64_t>;

namespace {

void push_appends(Engine& engine, const Var& x, std::uint64_t* word, int count) {
  for (int i = 0; i < count; ++i) {
    engine.push({.name = "append", .device = gpu(0), .access = {write(x)}, .capturable = true}, [=](Queue queue) {
      enqueue_append(queue.stream(), word, 1);
    });
  }
}

std::uint64_t appended(int count) {
  std::uint64_t word = 0;
  for (int i = 0; i < count; ++i)
    word = 3 * word + 1;
  return word;
}

}  // namespace

TEST_CASE("T56: tasks pushed after an import come after what lay on the foreign stream; nobody waits", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  const ForeignStream foreign;
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  gate.hold(foreign.get());
  for (int i = 0; i < 5; ++i)
    enqueue_append(foreign.get(), word.data(), 1);
  import_stream(engine, gpu(0), foreign.get(), {write(x)});
  push_appends(engine, x, word.data(), 20);
  CHECK(word[0] == 0);
  gate.open();
  engine.wait(x);
  CHECK_FALSE(gate.gave_up());
  CHECK(word[0] == appended(25));
}

TEST_CASE("T56: what is enqueued after an export comes after the tasks; nobody waits for the GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords words(2);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  const ForeignStream foreign;
  GpuGate gate;
  GpuGateOpensAtEnd opens(gate);
  engine.push(
      {.name = "gated", .device = gpu(0), .access = {write(x)}}, [gate](Queue queue) { gate.hold(queue.stream()); });
  push_appends(engine, x, words.data(), 60);  // some of them in batches
  export_stream(engine, gpu(0), foreign.get(), {write(x)});
  enqueue_combine(foreign.get(), &words[1], &words[0]);
  import_stream(engine, gpu(0), foreign.get(), {write(x)});
  push_appends(engine, x, words.data(), 1);
  CHECK(words[1] == 0);
  gate.open();
  engine.wait(x);
  CHECK_FALSE(gate.gave_up());
  CHECK(words[1] == appended(60));
  CHECK(words[0] == appended(61));
}

TEST_CASE("T56: a stream under capture is refused, and its capture goes on", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  PinnedWords word(1);
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  ForeignStream foreign;
  foreign.begin_capture();
  enqueue_append(foreign.get(), word.data(), 1);
  CHECK_THAT(text_of_error([&] { import_stream(engine, gpu(0), foreign.get(), {write(x)}); }), contains("captur"));
  CHECK_THROWS_AS(export_stream(engine, gpu(0), foreign.get(), {write(x)}), ValueError);
  foreign.launch_captured();
  import_stream(engine, gpu(0), foreign.get(), {write(x)});
  engine.wait(x);
  CHECK(word[0] == 1);
}
