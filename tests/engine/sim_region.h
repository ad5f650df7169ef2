#pragma once

// What the tests of regions share.
#include <sluice/engine/region.h>

#include "tests/engine/sim_run.h"

namespace sluice::test {

using Word = std::uint64_t;

/// Pushes a capturable task that appends `value`; `also` is done in its body first.
template <class Also>
TaskHandle push_append(Engine& engine, const Var& var, Word& word, Word value, Also also) {
  return engine.push(
      {.name = "append", .device = gpu(0), .access = {write(var)}, .capturable = true},
      [&word, value, also](Queue queue) {
        also(queue);
        sim_launch(queue, [&word, value] { word = 3 * word + value; });
      });
}
inline TaskHandle push_append(Engine& engine, const Var& var, Word& word, Word value) {
  return push_append(engine, var, word, value, [](Queue) {});
}

/// A call that no capture allows.
inline void spoil(Queue queue) {
  cudaStreamQuery(static_cast<cudaStream_t>(queue.stream()));
  cudaGetLastError();
}

/// A Var, the word behind it, and an engine with one worker.
struct Chain {
  explicit Chain(EngineOptions options = {.workers = 1}) : engine(options), x(engine.new_var()) {}

  /// Pushes tasks that append 0, 1, ... `count - 1`.
  void push(int count) {
    for (int i = 0; i < count; ++i)
      push_append(engine, x, word, static_cast<Word>(i));
  }
  /// What the word is after so many rounds of that.
  static Word expected(int rounds, int count) {
    Word word = 0;
    for (int i = 0; i < rounds * count; ++i)
      word = 3 * word + static_cast<Word>(i % count);
    return word;
  }

  Engine engine;
  Var x;
  Word word = 0;
};

}  // namespace sluice::test
