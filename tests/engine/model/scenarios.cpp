#include "tests/engine/model/scenarios.h"

namespace sluice::model {

namespace {

// The name says what is pushed by whom: `wr` is one pusher that writes, then reads; `+` separates pushers.
Scenario with_name(std::string family, Scenario scenario) {
  static constexpr const char* k_verbs[] = {"", "drop", "freeze", "unfreeze", "renew"};
  scenario.name = std::move(family);
  for (std::size_t p = 0; p < scenario.pushers.size(); ++p) {
    scenario.name += p == 0 ? ":" : " +";
    for (const Command& command : scenario.pushers[p]) {
      scenario.name += std::string(" ") + k_verbs[static_cast<int>(command.verb)];
      if (command.verb == Verb::push)
        scenario.name += scenario.tasks[static_cast<std::size_t>(command.what)];
    }
  }
  scenario.name += ", " + std::to_string(scenario.workers) + " workers, gates open after " +
                   std::to_string(scenario.hot_reads) + " reads";
  if (scenario.every_operation)
    scenario.name += ", stops at every operation";
  return scenario;
}

std::vector<std::string> pattern(int bits, int accesses) {
  std::vector<std::string> tasks;
  for (int i = 0; i < accesses; ++i)
    tasks.push_back((bits >> i & 1) != 0 ? "w" : "r");
  return tasks;
}

std::vector<Command> pushes(int first, int end) {
  std::vector<Command> script;
  for (int i = first; i < end; ++i)
    script.push_back({Verb::push, i});
  return script;
}

std::vector<Command> then(std::vector<Command> script, Command last) {
  script.push_back(last);
  return script;
}

// What a task may do with two Vars.
constexpr const char* k_two[] = {"r-", "w-", "-r", "-w", "rr", "rw", "wr", "ww"};

}  // namespace

std::vector<Scenario> one_var(int accesses, int workers, int hot_reads, bool every_operation) {
  std::vector<Scenario> all;
  for (int bits = 0; bits < 1 << accesses; ++bits) {
    all.push_back(with_name(
        "one Var",
        {.tasks = pattern(bits, accesses),
         .pushers = {pushes(0, accesses)},
         .workers = workers,
         .hot_reads = hot_reads,
         .every_operation = every_operation}));
    // Two pushers share the work.
    if (accesses == 3 || accesses == 4)
      all.push_back(with_name(
          "one Var",
          {.tasks = pattern(bits, accesses),
           .pushers = {pushes(0, accesses - 1), pushes(accesses - 1, accesses)},
           .workers = 2,
           .hot_reads = hot_reads,
           .every_operation = every_operation}));
  }
  return all;
}

std::vector<Scenario> dropped_var(int accesses, int hot_reads, bool every_operation) {
  std::vector<Scenario> all;
  for (int bits = 0; bits < 1 << accesses; ++bits) {
    const std::vector<Command> script = then(pushes(0, accesses), {Verb::drop, 0});
    all.push_back(with_name(
        "dropped",
        {.tasks = pattern(bits, accesses),
         .pushers = {script},
         .hot_reads = hot_reads,
         .every_operation = every_operation}));
    all.push_back(with_name(
        "dropped by two",
        {.tasks = pattern(bits, accesses),
         .pushers = {script, {{Verb::drop, 0}}},
         .hot_reads = hot_reads,
         .handles = 2,
         .every_operation = every_operation}));
  }
  return all;
}

std::vector<Scenario> reused_var(int hot_reads) {
  std::vector<Scenario> all;
  for (int bits = 0; bits < 16; ++bits) {
    all.push_back(with_name(
        "reused",
        {.tasks = pattern(bits, 4),
         .pushers =
             {then(pushes(0, 2), {Verb::drop, 0}),
              {{Verb::renew, 0}, {Verb::push, 2}, {Verb::push, 3}, {Verb::drop, 0}}},
         .hot_reads = hot_reads}));
  }
  return all;
}

std::vector<Scenario> frozen_var(bool every_operation) {
  std::vector<Scenario> all;
  const auto add = [&](std::vector<std::string> tasks, std::vector<std::vector<Command>> pushers, int handles) {
    all.push_back(with_name(
        "frozen",
        {.tasks = std::move(tasks),
         .pushers = std::move(pushers),
         .handles = handles,
         .every_operation = every_operation}));
  };
  const Command freeze{Verb::freeze, 0}, unfreeze{Verb::unfreeze, 0}, drop{Verb::drop, 0};
  const auto push = [](int task) { return Command{Verb::push, task}; };
  add({"r", "w", "r"}, {{freeze, push(0), unfreeze, push(1)}, {push(2)}}, 1);
  add({"w", "r", "w", "r"}, {{push(0), freeze, push(1), unfreeze, push(2)}, {push(3)}}, 1);
  add({"r", "r", "w"}, {{push(0), freeze, push(1), unfreeze, push(2)}}, 1);
  add({"w", "r"}, {{push(0), freeze, push(1), drop}}, 1);
  add({"r", "r"}, {{freeze, push(0), drop}, {push(1), drop}}, 2);
  add({"w", "r"}, {{freeze, drop}, {push(1), drop}, {push(0), drop}}, 3);
  add({"r"}, {{freeze, push(0), drop}, {drop}, {drop}}, 3);
  add({"w", "w", "r"}, {{push(0), push(1)}, {freeze, push(2), unfreeze}}, 1);
  return all;
}

std::vector<Scenario> one_pusher_two_vars(int hot_reads) {
  std::vector<Scenario> all;
  for (const char* first : k_two) {
    for (const char* second : k_two) {
      for (const char* third : k_two)
        all.push_back(with_name(
            "two Vars", {.tasks = {first, second, third}, .pushers = {pushes(0, 3)}, .hot_reads = hot_reads}));
    }
  }
  return all;
}

std::vector<Scenario> crossing_pushers(int hot_reads) {
  std::vector<Scenario> all;
  for (const char* first : {"rw", "wr", "r-", "w-", "-r", "-w", "rr", "ww"}) {
    for (const char* second : k_two) {
      // The first read opens both gates where that is wanted.
      all.push_back(with_name(
          "crossing",
          {.tasks = {"rr", first, second}, .pushers = {pushes(0, 2), pushes(2, 3)}, .hot_reads = hot_reads}));
    }
  }
  return all;
}

// One pusher finds a gate closed that it has seen open, while the other wants both Vars.
std::vector<Scenario> crossing_with_closed_gates() {
  std::vector<Scenario> all;
  for (const char* first : {"rw", "wr"}) {
    for (const char* second : {"w-", "-w"}) {
      for (const char* third : {"ww", "rw", "wr"})
        all.push_back(with_name(
            "crossing",
            {.tasks = {"rr", first, second, third}, .pushers = {pushes(0, 2), pushes(2, 4)}, .hot_reads = 1}));
    }
  }
  return all;
}

// Lock coupling instead of locking all would let these three wait in a circle (engine.md 2.3).
std::vector<Scenario> three_pushers() {
  return {
      with_name("coupled", {.tasks = {"wrw", "ww-", "-ww"}, .pushers = {pushes(0, 1), pushes(1, 2), pushes(2, 3)}}),
      with_name(
          "in a circle", {.tasks = {"rw-", "-rw", "w-r"}, .pushers = {pushes(0, 1), pushes(1, 2), pushes(2, 3)}})};
}

// Reads that come in at once or are pushed, beside what they may meet; the first task opens gates where that is wanted.
std::vector<Scenario> tried_reads(int hot_reads) {
  std::vector<Scenario> all;
  const auto add =
      [&](std::vector<std::string> tasks, std::vector<std::vector<Command>> pushers, bool everywhere, int handles = 1) {
        all.push_back(with_name(
            "tried",
            {.tasks = std::move(tasks),
             .pushers = std::move(pushers),
             .hot_reads = hot_reads,
             .handles = handles,
             .every_operation = everywhere}));
      };
  const Command drop{Verb::drop, 0};
  for (const char* beside : {"r", "w", "t"}) {
    add({"r", beside, "t"}, {pushes(0, 2), pushes(2, 3)}, true);
    add({"r", "t", beside, "t"}, {pushes(0, 2), pushes(2, 4)}, false);
    add({"r", beside, "t"}, {then(pushes(0, 2), drop), then(pushes(2, 3), drop)}, true, 2);
  }
  for (const char* beside : k_two)
    add({"rr", beside, "tt"}, {pushes(0, 2), pushes(2, 3)}, false);
  // What is read of two Vars must be of one moment.
  for (const char* second : {"-w", "ww"})
    add({"rr", "w-", second, "tt"}, {pushes(0, 3), pushes(3, 4)}, false);
  return all;
}

void for_all_scenarios(const std::function<bool(const Scenario&)>& visit) {
  const auto all_of = [&](const std::vector<Scenario>& family) {
    for (const Scenario& scenario : family) {
      if (!visit(scenario))
        return false;
    }
    return true;
  };
  for (const int hot_reads : {100, 1}) {
    for (int accesses = 1; accesses <= 3; ++accesses) {
      if (!all_of(one_var(accesses, 2, hot_reads, true)) || !all_of(dropped_var(accesses, hot_reads, true)))
        return;
    }
  }
  if (!all_of(three_pushers()) || !all_of(frozen_var(true)) || !all_of(crossing_with_closed_gates()))
    return;
  for (const int hot_reads : {100, 1}) {
    if (!all_of(tried_reads(hot_reads)) || !all_of(reused_var(hot_reads)) || !all_of(one_pusher_two_vars(hot_reads)) ||
        !all_of(one_var(5, 3, hot_reads, false)))
      return;
  }
  (void)(all_of(one_var(5, 3, 2, false)) && all_of(one_var(4, 3, 1, false)) && all_of(dropped_var(4, 1, false)) && all_of(crossing_pushers(100)) && all_of(crossing_pushers(1)));
}

}  // namespace sluice::model
