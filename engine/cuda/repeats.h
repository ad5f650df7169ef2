#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <boost/unordered/unordered_flat_set.hpp>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/graph_cache.h>

namespace sluice::detail {

/// What a GPU's tasks have enqueued before, where their bodies say what that is: which bodies, and the executables of
/// batches that came more than once. For the issuing thread of its device only.
class Repeats {
 public:
  static constexpr std::size_t k_most_bodies = 1 << 15;
  static constexpr std::size_t k_most_executables = 256;
  static constexpr std::size_t k_most_seen = 4096;   // scripts of which no executable is kept
  static constexpr std::uint64_t k_long_ago = 2048;  // scripts

  /// Has a body with this description been captured, and has it asked for nothing but its stream? Two descriptions may
  /// be taken for one another: then a body is called later than it would have been.
  bool knows(std::uint64_t description) const noexcept { return bodies_.contains(description); }
  void learn(std::uint64_t description) noexcept;
  void unlearn(std::uint64_t description) noexcept { bodies_.erase(description); }

  /// The executable of a batch with this script; null if none is kept. Compares all of it.
  cudaGraphExec_t find(const Batch::Script& script) noexcept;
  /// Keeps an executable of the graph if the script came before and there are only kernels in it. Null if none is kept.
  /// Throws CudaError.
  cudaGraphExec_t keep(const Batch::Script& script, cudaGraph_t graph);
  std::uint64_t made() const noexcept { return made_; }

 private:
  struct Known {
    Batch::Script script;  // empty: it came once
    GraphExecutable executable;
    std::uint64_t used = 0;
    bool refused = false;  // not only kernels
  };
  bool make_room();

  boost::unordered_flat_set<std::uint64_t> bodies_;
  std::unordered_map<std::uint64_t, Known> known_;
  std::size_t executables_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace sluice::detail
