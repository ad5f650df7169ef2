#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/graph_capture.h>
#include <sluice/engine/cuda/handle.h>

namespace sluice::detail {

class CudaStream;

using GraphExecutable = cuda::Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// What tells executables apart that may be brought up to date with each other's graphs, and how large they are.
struct GraphShape {
  std::uint64_t key = 0;
  std::size_t nodes = 0;
};

/// The shape of `graph`: what its maker knows of its edges, `structure`, and which kernels its nodes call in what
/// clusters. An executable that is brought up to date with other kernels or clusters than it was made with may compute
/// nonsense or lose the GPU, and the driver does not always say so. Where the driver does not tell of kernels the shape
/// is another each time: such graphs are made anew. Throws CudaError.
GraphShape shape_of(std::uint64_t structure, cudaGraph_t graph);

/// The executables of one GPU's graphs, by shape, of batches as of regions: making one costs ten times what bringing
/// one up to date does. They are lent out. Several of one shape where graphs of that shape run side by side, since the
/// driver runs an executable once at a time. For any thread.
class ExecutableCache {
 public:
  static constexpr std::size_t k_most = 256;            // that are not lent,
  static constexpr std::size_t k_most_nodes = 1 << 14;  // and nodes in them, some 14 KiB of the GPU's memory each

  /// Brought up to date; made; made beside others of its shape that are under way.
  enum class Found : std::uint8_t { updated, made, made_beside };

  /// An executable on loan: goes back with the object. The cache must live longer.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { give_back(); }
    /// Null if nothing is on loan.
    cudaGraphExec_t get() const noexcept { return executable_.get(); }
    Found found() const noexcept { return found_; }

   private:
    friend class ExecutableCache;
    void give_back() noexcept;

    ExecutableCache* cache_ = nullptr;  // null: it does not go back
    GraphShape shape_;
    const void* owner_ = nullptr;
    const CudaStream* stream_ = nullptr;
    GraphExecutable executable_;
    Found found_ = Found::updated;
  };

  /// Whose graph it is: executables of one owner are not lent to another.
  struct Use {
    bool alone = false;                  // made for this graph, and destroyed when it goes back
    const void* owner = nullptr;         // null: the batches
    const CudaStream* stream = nullptr;  // where it is launched, if that is known
    unsigned flags = 0;                  // of cudaGraphInstantiate
  };
  /// An executable that does what `graph` does. Throws CudaError.
  Lease take(GraphShape shape, cudaGraph_t graph, const Use& use);
  /// Destroys what `owner` has given back.
  void forget(const void* owner) noexcept;

 private:
  struct Instance {
    GraphExecutable executable;
    const CudaStream* stream = nullptr;
    std::uint64_t used = 0;
  };
  struct Shape {
    std::vector<Instance> idle;
    std::size_t nodes = 0;
    const void* owner = nullptr;
    std::uint64_t used = 0;
  };
  using Shapes = std::unordered_map<std::uint64_t, Shape>;

  static std::uint64_t key_of(GraphShape shape, const void* owner) noexcept;
  GraphExecutable find(GraphShape shape, const Use& use, Found& found);
  void put(Lease& lease);
  void make_room(std::uint64_t but);
  Shapes::iterator drop(Shapes::iterator at) noexcept;

  std::mutex mutex_;
  Shapes shapes_;
  std::size_t size_ = 0, nodes_ = 0;  // of what is idle
  std::uint64_t turn_ = 0;
};

}  // namespace sluice::detail
