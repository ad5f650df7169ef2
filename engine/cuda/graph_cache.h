#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/cuda_stream.h>

namespace sluice::detail {

using GraphHandle = cuda::Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecutable = cuda::Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// `shape` and which kernels the graph's nodes call: an executable that is brought up to date with other kernels than
/// it was made with may compute nonsense, and the driver does not always say so. Where the driver does not tell of
/// kernels it is another each time: such graphs are made anew. Throws CudaError.
std::uint64_t graph_shape(std::uint64_t shape, cudaGraph_t graph, std::size_t nodes);

/// Executables of the graphs that batches were, by shape: making one costs ten times what bringing one up to date
/// does. Several of one shape where batches of that shape run side by side, since the driver runs an executable once
/// at a time.
class GraphCache {
 public:
  static constexpr std::size_t k_most = 256;  // executables
  static constexpr std::size_t k_a_shape = 4;
  static constexpr std::uint64_t k_long_ago = 8;  // launches: it is through, or nearly

  /// An executable that does what `graph` does, to be launched on `stream`. Throws CudaError.
  cudaGraphExec_t prepare(std::uint64_t shape, cudaGraph_t graph, const CudaStream& stream);

  std::uint64_t made() const noexcept { return made_; }
  std::uint64_t updated() const noexcept { return updated_; }
  /// Batches in a row for which one had to be made.
  int misses() const noexcept { return misses_; }
  void forget_misses() noexcept { misses_ = 0; }
  void clear() noexcept { shapes_.clear(); }

 private:
  struct Instance {
    GraphExecutable executable;
    const CudaStream* stream = nullptr;
    std::uint64_t used = 0;
  };
  struct Shape {
    std::vector<Instance> instances;
    std::uint64_t used = 0;
  };

  Instance* choose(Shape& shape, const CudaStream& stream) const;
  void make_room();

  std::unordered_map<std::uint64_t, Shape> shapes_;
  std::size_t size_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t made_ = 0;
  std::uint64_t updated_ = 0;
  int misses_ = 0;
};

}  // namespace sluice::detail
