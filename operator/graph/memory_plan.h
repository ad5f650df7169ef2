#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::graph {

/// Which results of a graph share memory. A value takes the place of another only where the graph says anyway that it
/// is made after all uses of that one: what may run side by side still may.
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
SLUICE_API MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& apart);

}  // namespace sluice::graph
