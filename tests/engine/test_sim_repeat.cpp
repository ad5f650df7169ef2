// Tasks that come again in the same batches, launched as before without a call of their bodies.
#include <stdexcept>
#include <vector>

#include "tests/engine/sim_run.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Word = std::uint64_t;

/// A word that tasks append to, and how often their bodies were called.
struct Written {
  Word word = 0;
  int calls = 0;
};

const Task k_append{.name = "append", .device = gpu(0), .capturable = true};

Task on(const Var& var) {
  Task task = k_append;
  task.access = {write(var)};
  return task;
}

void launch_append(Queue queue, Written* to, Word value) {
  ++to->calls;
  sim_launch(queue, [to, value] { to->word = 3 * to->word + value; });
}

void push_append(Engine& engine, const Var& var, Written& to, Word value) {
  engine.push(on(var), repeatable([to = &to, value](Queue queue) { launch_append(queue, to, value); }));
}

/// The word after `count` tasks that appended `first`, `first` + 1, ...
Word appended(int count, Word first = 0) {
  Word word = 0;
  for (int i = 0; i < count; ++i)
    word = 3 * word + first + static_cast<Word>(i);
  return word;
}

/// One Var on one engine, written by a chain of tasks again and again.
struct Chain {
  static constexpr int k_length = 200;
  Written there;
  Engine engine{EngineOptions{.workers = 1}};
  Var x = engine.new_var();

  void round(Word first = 0) {
    there.word = 0;
    for (int i = 0; i < k_length; ++i)
      push_append(engine, x, there, first + static_cast<Word>(i));
    engine.wait(x);
    CHECK(there.word == appended(k_length, first));
  }
  /// Calls of bodies in a round.
  int calls_of_round(Word first = 0) {
    const int before = there.calls;
    round(first);
    return there.calls - before;
  }
};

struct Slot {
  explicit Slot(Queue) {}
};

constexpr int k_learning = 24;  // rounds: what a batch holds settles, and each is seen twice on its way

}  // namespace

TEST_CASE("A batch that comes again is launched without a call of its bodies", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  CHECK(chain.calls_of_round() == Chain::k_length);
  for (int i = 0; i < k_learning; ++i)
    chain.round();
  const EngineCounters before = chain.engine.counters();
  sim::clear_calls();
  CHECK(chain.calls_of_round() < 10);  // those that are launched directly
  const EngineCounters after = chain.engine.counters();
  CHECK(after.repeated > before.repeated);
  CHECK(after.repeated - before.repeated == after.batches - before.batches);
  CHECK(after.batched - before.batched > 190);
  for (const char* call : {"cudaStreamBeginCapture", "cudaGraphExecUpdate", "cudaGraphInstantiate"})
    CHECK(sim::calls(call) == 0);
}

TEST_CASE("A body that holds something else is called, in a batch whose other tasks came before", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  for (int i = 0; i < k_learning; ++i)
    chain.round();
  CHECK(chain.calls_of_round(1000) == Chain::k_length);
  CHECK(chain.calls_of_round() < 10);
  for (Word value : {7, 8, 9}) {  // one task in the middle is different each time
    chain.there.word = 0;
    for (int i = 0; i < 50; ++i)
      push_append(chain.engine, chain.x, chain.there, i == 30 ? value : static_cast<Word>(i));
    chain.engine.wait(chain.x);
    CHECK(chain.there.word != appended(50));
    Word expected = 0;
    for (int i = 0; i < 50; ++i)
      expected = 3 * expected + (i == 30 ? value : static_cast<Word>(i));
    CHECK(chain.there.word == expected);
  }
}

TEST_CASE("A body that asks for more than its stream is called each time", "[sim]") {
  enum Question { position, wait, slot, error_word };
  for (const Question question : {position, wait, slot, error_word}) {
    CAPTURE(question);
    Sim sim;
    sim.keep_batches_open();
    Chain chain;
    int asked = 0;
    const auto body = [question, asked = &asked, to = &chain.there](Queue queue) {
      ++*asked;
      if (question == position)
        (void)queue.position();
      else if (question == wait)
        queue.wait_for({});
      else if (question == slot)
        (void)queue.slot<Slot>();
      else
        (void)queue.error_word();
      launch_append(queue, to, 2);
    };
    for (int round = 1; round <= k_learning; ++round) {
      for (int i = 0; i < 60; ++i) {
        push_append(chain.engine, chain.x, chain.there, 1);
        if (i == 30)
          chain.engine.push(on(chain.x), repeatable(body));
      }
      chain.engine.wait(chain.x);
      CHECK(asked == round);
    }
  }
}

TEST_CASE("A body that holds more than 512 bytes is called each time", "[sim]") {
  struct Numbers {
    Word all[64];
  };
  static_assert(sizeof(Numbers) == 512);
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  for (int round = 1; round <= k_learning; ++round) {
    const int before = chain.there.calls;
    for (int i = 0; i < 60; ++i) {
      const auto body = [to = &chain.there, numbers = Numbers{}](Queue queue) {
        launch_append(queue, to, numbers.all[0]);
      };
      chain.engine.push(on(chain.x), repeatable(body));
    }
    chain.engine.wait(chain.x);
    CHECK(chain.there.calls - before == 60);
  }
}

TEST_CASE(
    "Batches that copy memory are captured each time: what lies at an address may have become other memory", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 64) == cudaSuccess);
  int calls = 0;
  for (int round = 1; round <= k_learning; ++round) {
    for (int i = 0; i < 8; ++i)
      push_append(chain.engine, chain.x, chain.there, 1);
    chain.engine.push(on(chain.x), repeatable([calls = &calls, memory](Queue queue) {
                        ++*calls;
                        const auto stream = static_cast<cudaStream_t>(queue.stream());
                        cudaMemcpyAsync(memory, static_cast<char*>(memory) + 32, 32, cudaMemcpyDefault, stream);
                      }));
    chain.engine.wait(chain.x);
    CHECK(calls == round);
  }
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("T49: what comes again and cannot be launched, captured or kept is launched task by task", "[sim]") {
  for (const char* call :
       {"cudaGraphLaunch",
        "cudaStreamBeginCapture",
        "cudaStreamEndCapture",
        "cudaGraphInstantiate",
        "cudaGraphGetNodes",
        "cudaEventRecord"}) {
    CAPTURE(call);
    Sim sim;
    sim.keep_batches_open();
    sim.tolerate_leftovers();  // a call that fails leaves what it should have ended
    Chain chain;
    for (int i = 0; i < k_learning + 8; ++i) {
      sim::fail_nth(call, 1 + i % 3, cudaErrorUnknown);
      chain.round(i % 8 == 7 ? 5000 : 0);
    }
    CHECK(chain.engine.counters().failed == 0);
  }
}

TEST_CASE("A body that fails is called each time, and its Vars fail with it", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  Var failed = chain.engine.new_var();
  int calls = 0;
  for (int round = 1; round <= 8; ++round) {
    for (int i = 0; i < 30; ++i) {
      push_append(chain.engine, chain.x, chain.there, static_cast<Word>(i));
      if (i != 15)
        continue;
      Task task = k_append;
      task.access = {out(failed)};
      chain.engine.push(task, repeatable([calls = &calls](Queue queue) {
                          ++*calls;
                          (void)queue.stream();
                          throw std::runtime_error("on purpose");
                        }));
    }
    chain.engine.wait(chain.x);
    CHECK_THROWS_AS(chain.engine.wait(failed), TaskFailed);
    CHECK(calls == round);
  }
}

TEST_CASE("A body that came again and fails when it is called after all fails its task as any other", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  bool fails = false;
  const auto push_all = [&](Word last) {
    chain.there.word = 0;
    for (int i = 0; i < 30; ++i) {
      const auto body = [fails = &fails, to = &chain.there, i](Queue queue) {
        (void)queue.stream();
        if (*fails && i % 2 == 1 && i > 24)  // which it must not depend on
          throw std::runtime_error("on purpose");
        launch_append(queue, to, static_cast<Word>(i));
      };
      chain.engine.push(on(chain.x), repeatable(body));
    }
    push_append(chain.engine, chain.x, chain.there, last);
    chain.engine.wait(chain.x);
  };
  for (int i = 0; i < k_learning; ++i)
    push_all(0);
  push_all(1);  // seen once: the next time its last batch would be kept
  fails = true;
  CHECK_THROWS_AS(push_all(1), TaskFailed);
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_AS(chain.engine.wait(chain.x), TaskFailed);
  CHECK(chain.there.word == appended(25));
  CHECK(chain.engine.counters().failed == 1);
  CHECK(chain.engine.counters().skipped == 5);
  chain.engine.clear_error(chain.x);
  CHECK_NOTHROW(chain.engine.wait(chain.x));
  fails = false;
  for (int i = 0; i < k_learning; ++i) {  // nothing is kept of a batch in which bodies failed
    push_all(1);
    CHECK(chain.there.word == 3 * appended(30) + 1);
  }
}

TEST_CASE("After many batches that do not come again, a loop of those that do is found again", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  chain.round();
  Word draw = 1;
  for (int batch = 0; batch < 600; ++batch) {  // of tasks that are known, in an order that never came
    for (int i = 0; i < 12; ++i) {
      draw = mix(draw);
      push_append(chain.engine, chain.x, chain.there, draw % Chain::k_length);
    }
    chain.engine.wait(chain.x);
  }
  const std::uint64_t before = chain.engine.counters().repeated;
  for (int i = 0; i < 1000 && chain.engine.counters().repeated < before + 10; ++i)
    chain.round();
  CHECK(chain.engine.counters().repeated >= before + 10);
}

TEST_CASE("What lies between the members of a repeatable body does not count", "[sim]") {
  struct Gap {
    char letter;
    Word word;
    void operator()(Queue) {}
  };
  static_assert(sizeof(Gap) == 16);
  const auto content_of = [](unsigned char filling, char letter, Word word) {
    alignas(Repeatable<Gap>) unsigned char bytes[sizeof(Repeatable<Gap>)];
    std::fill(std::begin(bytes), std::end(bytes), filling);
    auto* const gap = reinterpret_cast<Gap*>(bytes);
    gap->letter = letter;
    gap->word = word;
    std::vector<Word> words;
    Content content(words);
    reinterpret_cast<const Repeatable<Gap>*>(bytes)->describe(content);
    return words;
  };
  CHECK(content_of(0, 'a', 1) == content_of(255, 'a', 1));
  CHECK(content_of(0, 'a', 1) != content_of(0, 'b', 1));
  CHECK(content_of(0, 'a', 1) != content_of(0, 'a', 2));
}
