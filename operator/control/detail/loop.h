#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/operator/control/attributes.h>
#include <sluice/operator/control/detail/body.h>

// What the nodes of loops have in common.
namespace sluice::control {

/// How many of a loop body's inputs and outputs are what. Inputs: data, states, captured; outputs: stacked, states,
/// sums.
struct LoopParts {
  std::size_t data = 0, states = 0, captured = 0, stacked = 0, sums = 0;

  /// Throws ValueError where a body has other numbers.
  LoopParts(const char* op, const Subgraph& body, std::int64_t data, std::int64_t states, std::int64_t sums);
};

/// Throws ValueError for a subgraph that is missing, what check_same() throws for one that takes others than `inputs`.
void check_body(const char* op, const char* what, const Subgraph& body, std::span<const ArraySpec> inputs);
/// Throws as check_same() does where the body hands on other states than it takes.
void check_states(const char* op, const Subgraph& body, const LoopParts& parts);

/// The body with the states that it is given as outputs behind its own.
Subgraph with_saved_states(const Subgraph& body, const LoopParts& parts);

/// Bit i.
Mask mask_of(std::size_t i) noexcept;
/// Of a loop's outputs those that with_saved_states() added.
Mask saved_states_mask(const LoopParts& parts) noexcept;

/// The inputs of a call, copies of those in whose memory it writes.
Arrays apart(const IssueCall& call);

/// Runs turns of a loop, and puts what they give where the node wants it.
class LoopRun {
 public:
  /// `stacked`: a row a turn.
  LoopRun(const LoopParts& parts, const Subgraph& body, SourceLocation site, std::span<const NDArray> stacked);

  Arrays states = {};
  std::span<const NDArray> sums = {};

  /// One that reads rows of `data` and gives rows of the same number.
  void turn(std::span<const NDArray> data, std::span<const NDArray> captured, std::int64_t row);
  /// Zeros behind the turns, the states where they go. `saved`: so many of the stacked, the last ones, are read as far
  /// as turns were taken; behind that nothing touches them.
  void finish(std::int64_t turns, std::int64_t length, std::span<const NDArray> to, std::size_t saved);

 private:
  const LoopParts& parts_;
  const Subgraph& body_;
  const SourceLocation site_;
  const std::span<const NDArray> stacked_;
  bool first_ = true;
};

/// A recorded loop, to go back over.
struct LoopTape {
  const Subgraph& body;
  const LoopParts& parts;
  std::span<const NDArray> data, captured, saved_states;
  std::optional<NDArray> count;
  bool reverse = false;
  std::span<const NDArray> stacked_grads, state_grads, sum_grads;
  std::span<const bool> wanted_data, wanted_captured;
};

/// Gradients of data, states and captured arrays, one each; undefined where not wanted.
Arrays loop_gradient(const LoopTape& tape);

}  // namespace sluice::control
