#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Where a value may take the place of another one.
enum class Sharing : std::uint8_t {
  none,    // nowhere: each has its own
  proven,  // where it is made after all uses of that one anyway: what may run side by side still may
  // Where the nodes in their order are done with that one. Arrays of one slot are one Var, so that tasks wait where
  // they must: as little memory as there can be, and less side by side.
  in_order,
};

/// Which results of a graph share memory.
struct MemoryPlan {
  struct Slot {
    Device device = cpu();
    std::size_t bytes = 0;
  };
  std::vector<Slot> slots = {};
  std::vector<std::optional<std::size_t>> slot_of = {};  // by value; of the roots of results that nodes make
  std::size_t bytes_apart = 0;                           // of results that have their own
  std::size_t bytes_without_sharing = 0;
};

/// Bytes of all results.
SLUICE_API std::size_t bytes_of(const MemoryPlan& plan) noexcept;

/// Values of `apart`, by value, have memory of their own. Outputs of the graph share with nobody behind them.
SLUICE_API MemoryPlan
plan_memory(const Graph& graph, const std::vector<bool>& apart, Sharing sharing = Sharing::proven);

/// Values that a plan gives memory of their own: outputs that are made anew each time.
SLUICE_API std::vector<bool> values_apart(const Graph& graph);

/// What a plan of the graph takes for its results. `without_derived`: what it keeps as long as constants are not
/// written is not among them (PlanOptions::keep_derived).
SLUICE_API std::size_t planned_bytes(const Graph& graph, Sharing sharing, bool without_derived = true);

}  // namespace sluice::graph
