#pragma once

#include <cstdint>

#include <sluice/operator/control/subgraph.h>
#include <sluice/operator/operator.h>

namespace sluice::control {

/// Inputs: the predicate, `inputs` arrays for both bodies, what the first uses beside, what the second does.
struct CondAttributes {
  Subgraph then_body, else_body;
  std::int64_t inputs = 0;

  template <class V>
  void visit(V&& v) {
    v.field("then_body", then_body);
    v.field("else_body", else_body);
    v.field("inputs", inputs);
  }
};

/// Inputs: `data` arrays to go through, `states`, what the body uses beside, and if it is counted how many turns are
/// taken at most. The body takes entries of data, states and the rest; it gives outputs, states, and `sums`. The node
/// gives outputs stacked, zeros where no turn was, the last states, and sums over all turns.
struct ForeachAttributes {
  Subgraph body;
  std::int64_t data = 0, states = 0, sums = 0;
  bool reverse = false;  // from the last entry, or turn counted, to the first
  bool counted = false;
  bool saves = false;  // the last outputs are the states that a turn was given, for the gradient

  template <class V>
  void visit(V&& v) {
    v.field("body", body);
    v.field("data", data);
    v.field("states", states);
    v.field("sums", sums);
    v.field("reverse", reverse);
    v.field("counted", counted);
    v.field("saves", saves);
  }
};

/// Inputs: `states`, what the condition uses beside, what the body does. The node gives outputs stacked, zeros behind
/// the turns taken, the last states, and the number of turns.
struct WhileAttributes {
  Subgraph condition, body;
  std::int64_t states = 0, max_iterations = 0;
  bool saves = false;  // as foreach does

  template <class V>
  void visit(V&& v) {
    v.field("condition", condition);
    v.field("body", body);
    v.field("states", states);
    v.field("max_iterations", max_iterations);
    v.field("saves", saves);
  }
};

extern const Operator k_cond, k_foreach, k_while_loop;

}  // namespace sluice::control
