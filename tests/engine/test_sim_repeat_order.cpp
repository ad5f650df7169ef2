// In which order tasks run that come again.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/sim_run.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// For engines made meanwhile.
struct ManyQueues {
  ManyQueues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1); }
  ManyQueues(const ManyQueues&) = delete;
  ManyQueues& operator=(const ManyQueues&) = delete;
  ~ManyQueues() { unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"); }
};

Log* log_of_round = nullptr;

/// Tasks that always enqueue the same but touch other Vars in each variant: "" if all came in an order that the Vars of
/// this variant allow.
class Variants {
 public:
  explicit Variants(std::size_t tasks, std::uint32_t cells) : tasks_(tasks), cells_(cells) {
    for (std::uint32_t i = 0; i < cells; ++i)
      vars_.push_back(engine_.new_var());
  }

  std::string run(std::uint64_t variant) {
    const Program program = random_program(variant, tasks_, cells_, 1);
    auto log = std::make_shared<Log>();
    log_ = log.get();
    for (std::size_t i = 0; i < tasks_; ++i) {
      const Task task{
          .name = "step", .device = gpu(0), .access = access_of(program.steps[i], vars_), .capturable = true};
      engine_.push(task, repeatable([log = &log_, i](Queue queue) {
                     sim_launch(queue, [log, i] { (*log)->add(static_cast<int>(i)); });
                   }));
    }
    engine_.wait_all();
    return out_of_order(program, log->numbers());
  }
  std::uint64_t repeated() const { return engine_.counters().repeated; }

 private:
  static bool conflict(const Step& a, const Step& b) {
    for (int i = 0; i < a.count; ++i) {
      for (int j = 0; j < b.count; ++j) {
        if (a.cell[i] == b.cell[j] && (a.touch[i] != Touch::read || b.touch[j] != Touch::read))
          return true;
      }
    }
    return false;
  }
  static std::string out_of_order(const Program& program, const std::vector<int>& came) {
    std::vector<std::size_t> place(program.steps.size(), came.size());
    for (std::size_t i = 0; i < came.size(); ++i)
      place[static_cast<std::size_t>(came[i])] = i;
    for (std::size_t later = 0; later < place.size(); ++later) {
      if (place[later] == came.size())
        return message("task ", later, " did not come");
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (place[earlier] > place[later] && conflict(program.steps[earlier], program.steps[later]))
          return message("task ", later, " came before task ", earlier);
      }
    }
    return came.size() == place.size() ? "" : "a task came twice";
  }

  const std::size_t tasks_;
  const std::uint32_t cells_;
  Log* log_ = nullptr;
  Engine engine_{EngineOptions{.workers = 1}};
  std::vector<Var> vars_;
};

}  // namespace

TEST_CASE("A task that comes after another chain than before is another batch", "[sim]") {
  constexpr int k_length = 40, k_last = 3 * k_length;
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Sim sim(seeded(seed));
    sim.keep_batches_open();
    Engine engine({.workers = 1});
    const Var chains[] = {engine.new_var(), engine.new_var(), engine.new_var()};
    for (std::uint64_t round = 0; round < 16; ++round) {
      CAPTURE(seed, round);
      Log log;
      log_of_round = &log;
      const auto log_number = [logs = &log_of_round](int number) {
        return repeatable([logs, number](Queue queue) { sim_launch(queue, [logs, number] { (*logs)->add(number); }); });
      };
      for (int i = 0; i < k_last; ++i) {
        const Task task{.name = "link", .device = gpu(0), .access = {write(chains[i % 3])}, .capturable = true};
        engine.push(task, log_number(i));
      }
      // Its lane is in both cases that of the chain that was pushed to last.
      const auto before = static_cast<int>(mix(round) % 2);
      const Task task{
          .name = "last", .device = gpu(0), .access = {write(chains[2]), read(chains[before])}, .capturable = true};
      engine.push(task, log_number(k_last));
      engine.wait_all();
      const std::vector<int> came = log.numbers();
      REQUIRE(came.size() == k_last + 1);
      const auto last = std::find(came.begin(), came.end(), k_last);
      CHECK(std::none_of(
          last, came.end(), [=](int number) { return number < k_last && (number % 3 == 2 || number % 3 == before); }));
    }
    repeated += engine.counters().repeated;
  }
  CHECK(repeated > 0);
}

TEST_CASE("The same tasks with other edges are another batch", "[sim]") {
  std::uint64_t repeated = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Sim sim(seeded(4000 + seed));
    Variants variants(120, seed % 2 == 0 ? 6 : 20);
    for (std::uint64_t round = 0; round < 24; ++round) {
      CAPTURE(round);
      REQUIRE(variants.run(100 * seed + mix(round) % 4) == "");
    }
    repeated += variants.repeated();
  }
  CHECK(repeated > 0);
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

TEST_CASE("Chains that come again run side by side, eight of them if the driver has queues for more", "[sim]") {
  const ManyQueues queues;
  static constexpr int k_chains = 8, k_length = 20;
  static constexpr int k_meeting = 6;  // link in the first half of a batch: others may lie in two
  Sim sim({.devices = 2, .executors = 16});
  sim.keep_batches_open();
  const Meeting meeting(k_chains);
  std::atomic<bool> meets{false}, met{true};
  Engine engine({.workers = 1});
  std::vector<Var> vars;
  for (int i = 0; i < k_chains; ++i)
    vars.push_back(engine.new_var());
  const auto round = [&] {
    for (int i = 0; i < k_chains * k_length; ++i) {
      const int link = i / k_chains;
      const Task task{
          .name = "link",
          .device = gpu(0),
          .access = {write(vars[static_cast<std::size_t>(i % k_chains)])},
          .capturable = true};
      engine.push(task, repeatable([link, meets = &meets, met = &met, meeting = &meeting](Queue queue) {
                    sim_launch(queue, [=] {
                      if (*meets && link == k_meeting && !meeting->join())
                        *met = false;
                    });
                  }));
    }
    engine.wait_all();
  };
  for (int i = 0; i < 8; ++i)
    round();
  const std::uint64_t repeated = engine.counters().repeated;
  meets = true;
  round();
  CHECK(met);
  CHECK(engine.counters().repeated > repeated);
}

TEST_CASE("T52: random graphs that come again in wide batches give what a serial loop gives, each time", "[sim]") {
  const ManyQueues queues;
  check_repeated(3200, 1);
}

TEST_CASE("T52: random graphs that come again give what a serial loop gives, each time", "[sim]") {
  check_repeated(3000, 1);
}

TEST_CASE("T52: random graphs that come again from several threads are serialisable, each time", "[sim]") {
  check_repeated(3100, 3);
}
