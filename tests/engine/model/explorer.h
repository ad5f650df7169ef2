#pragma once

// Runs a scenario in every sequentially consistent order of its threads' operations.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/model/state.h"

namespace sluice::model {

enum class Verb : std::uint8_t { push, drop, freeze, unfreeze, renew };

/// One line of a pusher's script: pushes task `what`, or does something to Var `what`. renew: the slot of a retired
/// Var becomes a new one, as Core::new_var does it.
struct Command {
  Verb verb;
  int what;
};

/// Which Vars a task uses: one letter a Var, r or w, anything else for not at all; t is a read of a task that tries
/// first whether it may come in at once.
struct Scenario {
  std::string name = {};
  std::vector<std::string> tasks = {};
  std::vector<std::vector<Command>> pushers = {};
  int workers = 2;
  int hot_reads = 100;           // reads in a row that open a gate
  int handles = 1;               // of each Var at the start
  bool every_operation = false;  // stops before plain fields and unlocking too, and so sees races on plain fields
};

struct Outcome {
  std::string violation;  // empty: none
  std::string trace;      // how it came about
  std::uint64_t states = 0;
  std::uint64_t steps = 0;
  bool complete = true;  // false: more than `limit` states
};

Outcome explore(const Protocol& protocol, const Scenario& scenario, std::uint64_t limit = 200'000'000);

}  // namespace sluice::model
