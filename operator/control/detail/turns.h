#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/control/control.h>

namespace sluice::control {

/// Throws ShapeError, DTypeError, DeviceError: `op` found `what` to be `found`, and not as `expected`.
void check_same(const char* op, const std::string& what, const ArraySpec& found, const ArraySpec& expected);
/// Throws ValueError for an undefined one.
void check_defined(const char* op, const char* what, std::span<const NDArray> arrays);

/// The predicate's value, for which the calling thread waits. Throws ValueError for an undefined one, ShapeError unless
/// it has one element, and what the work that computes it threw.
bool truth_of(const char* op, const NDArray& predicate, SourceLocation site);
/// Throws as truth_of() does, and does not wait.
void check_predicate(const char* op, const ArraySpec& predicate);

/// What the turns of a loop gave so far.
class Turns {
 public:
  Turns(const char* op, const Arrays& states) : op_(op), states_(states) { check_defined(op, "state", states); }

  const Arrays& states() const noexcept { return states_; }
  std::int64_t taken() const noexcept { return taken_; }
  /// Of one more turn. Throws where it does not go with the ones before.
  void add(LoopResult result);
  /// Of no turn: what one would give. Outputs are then of that shape, empty.
  void none_taken(const std::vector<ArraySpec>& outputs);
  /// The outputs along a new first axis, which is `length` long: zeros behind the turns taken.
  Arrays stacked(std::int64_t length, SourceLocation site) const;

 private:
  const char* op_;
  Arrays states_;
  std::int64_t taken_ = 0;
  std::vector<ArraySpec> specs_;               // of outputs
  std::vector<std::vector<NDArray>> outputs_;  // of each the turns'
};

/// The name of the node on the tape that entries_of() makes, to be known by its address.
inline constexpr char k_entries_node[] = "foreach";
/// The entries of `data` along its first axis, off the tape or, where it is recorded, results of one node.
std::vector<NDArray> entries_of(const NDArray& data, SourceLocation site);

}  // namespace sluice::control
