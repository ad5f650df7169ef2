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

/// A foreign stream beside an engine, and a gate for either.
struct Beside {
  PinnedWords words{2};
  Engine engine{{.workers = 1}};
  Var x = engine.new_var();
  ForeignStream foreign;
  GpuGate gate;
  GpuGateOpensAtEnd opens{gate};

  void open_and_wait() {
    gate.open();
    engine.wait(x);
    CHECK_FALSE(gate.gave_up());
  }
};

}  // namespace

TEST_CASE("T56: tasks pushed after an import come after what lay on the foreign stream; nobody waits", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Beside b;
  b.gate.hold(b.foreign.get());
  for (int i = 0; i < 5; ++i)
    enqueue_append(b.foreign.get(), b.words.data(), 1);
  import_stream(b.engine, gpu(0), b.foreign.get(), {write(b.x)});
  push_appends(b.engine, b.x, b.words.data(), 20);
  CHECK(b.words[0] == 0);
  b.open_and_wait();
  CHECK(b.words[0] == appended(25));
}

TEST_CASE("T56: what is enqueued after an export comes after the tasks; nobody waits for the GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Beside b;
  b.engine.push({.name = "gated", .device = gpu(0), .access = {write(b.x)}}, [gate = b.gate](Queue queue) {
    gate.hold(queue.stream());
  });
  push_appends(b.engine, b.x, b.words.data(), 60);  // some of them in batches
  export_stream(b.engine, gpu(0), b.foreign.get(), {write(b.x)});
  enqueue_combine(b.foreign.get(), &b.words[1], &b.words[0]);
  import_stream(b.engine, gpu(0), b.foreign.get(), {write(b.x)});
  push_appends(b.engine, b.x, b.words.data(), 1);
  CHECK(b.words[1] == 0);
  b.open_and_wait();
  CHECK(b.words[1] == appended(60));
  CHECK(b.words[0] == appended(61));
}

TEST_CASE("T56: a stream under capture is refused, and its capture goes on", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  prepare_gpus();
  Beside b;
  b.foreign.begin_capture();
  enqueue_append(b.foreign.get(), b.words.data(), 1);
  const auto import = [&] { import_stream(b.engine, gpu(0), b.foreign.get(), {write(b.x)}); };
  CHECK_THAT(text_of_error(import), contains("captur"));
  CHECK_THROWS_AS(export_stream(b.engine, gpu(0), b.foreign.get(), {write(b.x)}), ValueError);
  b.foreign.launch_captured();
  import();
  b.engine.wait(b.x);
  CHECK(b.words[0] == 1);
}
