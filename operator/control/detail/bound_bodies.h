#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/detail/region_branch.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/control/attributes.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/graph.h>

// Bodies of branches and loops that a GPU chooses by itself, bound to memory as a plan's graph is.
namespace sluice::control {

/// A branch or a loop with an array for each value of its bodies. For one thread at a time.
class BoundBodies {
 public:
  virtual ~BoundBodies() = default;
  /// Where a region records, what the node does, for arrays that lie as those lay that it was bound to. Throws what
  /// invoke() throws.
  virtual void push(std::span<const NDArray> inputs, std::span<const NDArray> results, SourceLocation site) = 0;
  /// See PlanOptions::poison.
  virtual void poison(SourceLocation site) const = 0;
  /// Of all that is made in the bodies and is not in the node's results.
  virtual std::size_t bytes() const = 0;
};

std::unique_ptr<BoundBodies> bound_branch(
    const CondAttributes& a, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine);
std::unique_ptr<BoundBodies> bound_loop(
    const WhileAttributes& a, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine);

/// Of memory that serves any of those bodies: the bytes of the largest piece, of the next one, ..
std::vector<std::size_t> sizes_of_room(std::span<const Subgraph> bodies);
/// Arrays of bytes of those sizes.
Arrays new_room(std::span<const Subgraph> bodies, Device device, Engine& engine);

/// One body. What it makes it makes in the arrays that are to have it, where they lie so.
class BoundSide {
 public:
  /// `given` and `results` are the arrays of each run, or others that lie as those will. Throws OutOfMemory.
  BoundSide(
      const Subgraph& body,
      std::span<const NDArray> given,
      std::span<const NDArray> results,
      std::span<const NDArray> room,
      Engine& engine);
  BoundSide(const BoundSide&) = delete;
  BoundSide& operator=(const BoundSide&) = delete;

  /// The body's tasks, which write `results`.
  void push(std::span<const NDArray> given, std::span<const NDArray> results, SourceLocation site);
  void poison(SourceLocation site) const { binding_.poison({}, site); }
  /// Says that what it has beside the room is theirs alone.
  void tell_own(sluice::detail::RegionBodies& bodies) const;
  /// Beside the room.
  std::size_t bytes() const;

 private:
  /// An array from outside: an input or an output of the body, by number.
  struct End {
    std::size_t number = 0;
    bool is_input = false;
    NDArray own = {};  // undefined: the array of the run
  };

  Arrays ends(std::span<const NDArray> given, std::span<const NDArray> results) const;
  std::vector<NDArray> own_arrays() const;

  const Subgraph body_;  // keeps the graph
  const graph::Graph& graph_;
  graph::Binding binding_;
  std::vector<End> ends_;  // of binding_.outside()
};

/// Chosen by an array of one bool.
sluice::detail::BranchCondition condition_of(const TaskName& op, const NDArray& truth);
std::size_t bytes_of(const NDArray& array);
void tell_own(sluice::detail::RegionBodies& bodies, std::span<const NDArray> arrays);

}  // namespace sluice::control
