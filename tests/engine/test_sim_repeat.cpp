// Tasks that come again in the same batches, launched as before without a call of their bodies.
#include <atomic>
#include <stdexcept>
#include <type_traits>
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

TEST_CASE("The same tasks with other edges are another batch", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  constexpr int k_cells = 3, k_tasks = 120;
  Written there[k_cells];
  Engine engine({.workers = 1});
  std::vector<Var> vars;
  for (int i = 0; i < k_cells; ++i)
    vars.push_back(engine.new_var());
  // Each task copies a word and appends to it; in odd rounds all are ordered, in even ones only as the words need it.
  for (int round = 0; round < 2 * k_learning; ++round) {
    Word expected[k_cells] = {};
    for (Written& each : there)
      each.word = 0;
    for (int i = 0; i < k_tasks; ++i) {
      const std::size_t to = mix(static_cast<Word>(i)) % k_cells, from = mix(static_cast<Word>(i + 500)) % k_cells;
      Task task = k_append;
      task.access = {read(vars[from]), write(vars[to])};
      if (round % 2 == 1)
        task.access.push_back(write(vars[0]));
      engine.push(task, repeatable([to = there + to, from = there + from](Queue queue) {
                    sim_launch(queue, [to, from] { to->word = 3 * to->word + from->word + 1; });
                  }));
      expected[to] = 3 * expected[to] + expected[from] + 1;
    }
    engine.wait_all();
    for (int cell = 0; cell < k_cells; ++cell)
      CHECK(there[cell].word == expected[cell]);
  }
  CHECK(engine.counters().repeated > 0);
}

namespace {

/// Pushes the program's steps as tasks of which most, but not all, are repeatable.
void push_steps(const Program& program, Engine& engine, const std::vector<Var>& vars, History& history) {
  from_pushers(program, [&](std::size_t i) {
    const Step& step = program.steps[i];
    const Task task{.name = "step", .device = gpu(0), .access = access_of(step, vars), .capturable = true};
    const auto body = [step = &step, history = &history, i](Queue queue) {
      sim_launch(queue, [=] { run_step(*step, i, history->cells.data(), history->seen[i]); });
    };
    if (mix(i) % 200 == 0)
      engine.push(task, body);
    else
      engine.push(task, repeatable(body));
  });
}

/// Two programs in turn, for many rounds, on one engine. "" if all of them went as they had to.
std::string repeat_programs(std::uint64_t seed, int pushers, std::uint64_t& repeated) {
  const std::uint32_t cells[] = {3, 12, 60};
  const Program programs[] = {
      random_program(seed, 300, cells[seed % 3], pushers), random_program(seed + 1, 200, cells[seed % 3], pushers)};
  History histories[] = {History(programs[0]), History(programs[1])};
  Engine engine({.workers = 2});
  std::vector<Var> vars(programs[0].cells);
  for (Var& var : vars)
    var = engine.new_var();
  for (std::size_t round = 0; round < 16; ++round) {
    const std::size_t which = round % 5 == 4 ? 1 : 0;
    histories[which].cells.assign(programs[which].cells, Cell());
    push_steps(programs[which], engine, vars, histories[which]);
    engine.wait_all();
    const std::string wrong = judge(programs[which], histories[which]);
    if (!wrong.empty())
      return wrong;
  }
  repeated += engine.counters().repeated;
  return "";
}

void check_repeated(std::uint64_t first_seed, int pushers) {
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 12; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(seed));
    REQUIRE(repeat_programs(seed, pushers, repeated) == "");
  }
  CHECK(repeated > 0);
}

}  // namespace

TEST_CASE("T52: random graphs that come again give what a serial loop gives, each time", "[sim]") {
  check_repeated(3000, 1);
}

TEST_CASE("T52: random graphs that come again from several threads are serialisable, each time", "[sim]") {
  check_repeated(3100, 3);
}

TEST_CASE("A body that asks for its position, or waits for one, is called each time", "[sim]") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    Sim sim;
    sim.keep_batches_open();
    Chain chain;
    int asked = 0;
    Position latest;
    for (int round = 1; round <= k_learning; ++round) {
      for (int i = 0; i < 60; ++i) {
        push_append(chain.engine, chain.x, chain.there, 1);
        if (i != 30)
          continue;
        chain.engine.push(
            on(chain.x), repeatable([waits, asked = &asked, latest = &latest, to = &chain.there](Queue queue) {
              ++*asked;
              if (waits)
                queue.wait_for({});
              else
                *latest = queue.position();
              launch_append(queue, to, 2);
            }));
      }
      chain.engine.wait(chain.x);
      CHECK(asked == round);
    }
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

TEST_CASE("A body that asks for what belongs to its lane has it again", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1});
  std::vector<Var> vars;
  constexpr int k_vars = 6, k_rounds = 40;
  for (int i = 0; i < k_vars; ++i)
    vars.push_back(engine.new_var());
  struct Scratch {  // of a lane: two tasks that share one must not run beside each other
    explicit Scratch(Queue) {}
    Word word = 0;
  };
  Word words[k_vars] = {};
  for (int round = 0; round < k_rounds; ++round) {
    for (int i = 0; i < 20 * k_vars; ++i) {
      Word* const word = words + i % k_vars;
      engine.push(on(vars[static_cast<std::size_t>(i % k_vars)]), repeatable([word](Queue queue) {
                    Word* const scratch = &queue.slot<Scratch>().word;
                    sim_launch(queue, [word, scratch] {
                      *scratch = *word;
                      *word = *scratch + 1;
                    });
                  }));
    }
    engine.wait_all();
  }
  for (Word word : words)
    CHECK(word == 20 * k_rounds);
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

TEST_CASE("A body that came again and fails when it is called after all is reported by the next wait", "[sim]") {
  Sim sim;
  sim.keep_batches_open();
  Chain chain;
  bool fails = false;
  const auto push_all = [&](Word last) {
    chain.there.word = 0;
    for (int i = 0; i < 30; ++i) {
      push_append(chain.engine, chain.x, chain.there, static_cast<Word>(i));
      chain.engine.push(on(chain.x), repeatable([fails = &fails, i](Queue queue) {
                          (void)queue.stream();
                          if (*fails && i >= 25)  // which it must not depend on
                            throw std::runtime_error("on purpose");
                          sim_launch(queue, [] {});
                        }));
    }
    push_append(chain.engine, chain.x, chain.there, last);
    chain.engine.wait(chain.x);
  };
  for (int i = 0; i < k_learning; ++i)
    push_all(0);
  fails = true;
  CHECK_THROWS_AS(push_all(1), TaskFailed);
  fails = false;
  for (int i = 26; i < 30; ++i)  // each once
    CHECK_THROWS_AS(chain.engine.wait(chain.x), TaskFailed);
  CHECK_NOTHROW(chain.engine.wait(chain.x));
  CHECK(chain.there.word == 3 * appended(30) + 1);
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
