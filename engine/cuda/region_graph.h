#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/region_capture.h>
#include <sluice/engine/detail/region.h>

namespace sluice::detail {

struct Gpu;

/// Keeps an engine's core, whose streams know the positions of a region's work.
class CoreRef {
 public:
  explicit CoreRef(Core& core) noexcept;
  CoreRef(const CoreRef&) = delete;
  CoreRef& operator=(const CoreRef&) = delete;
  ~CoreRef();

 private:
  Core& core_;
};

/// The CUDA half of a region.
class CudaRegionGraphs final : public RegionGraphs, public std::enable_shared_from_this<CudaRegionGraphs> {
 public:
  CudaRegionGraphs(Core& core, Gpu& on, Reports& with) noexcept : core_(core), gpu(on), reports(with) {}
  ~CudaRegionGraphs() override;
  std::shared_ptr<RegionVariant> make(RegionProgram program, bool in_order) override;
  RegionCounts counts() const noexcept override;
  std::optional<RegionRefusal> refusal() const override;
  /// What became of a capture; who was to blame if it was refused. Null: no one task.
  void note_capture(bool refused, const RegionTask* task) noexcept;

  /// An executable that does what `graph` does; `alone`: that never did or will do another's work. Throws CudaError.
  ExecutableCache::Lease prepare(GraphShape shape, cudaGraph_t graph, bool alone);

  struct Counts {
    std::atomic<std::uint64_t> captured{0}, instantiated{0}, updated{0}, launched{0}, in_order{0};
  };

 private:
  const CoreRef core_;  // goes last
  mutable std::mutex mutex_;
  std::optional<RegionRefusal> refusal_;

 public:
  Gpu& gpu;
  Reports& reports;
  Counts counted;
  // For bodies of the device's tasks only.
  RegionStream stream;
  PositionSet after_handles;  // the latest launch that used handles
};

class CudaRegionVariant final : public RegionVariant {
 public:
  CudaRegionVariant(RegionProgram program, bool in_order, std::shared_ptr<CudaRegionGraphs> graphs)
      : RegionVariant(std::move(program), in_order ? State::spoilt : State::fresh),
        graphs_(std::move(graphs)),
        words_(graphs_->reports, this->program.tasks) {}
  void run(const Queue& queue) override;
  std::unique_ptr<RegionLaunch> own_launch() override;

 private:
  State capture(const Queue& queue);
  void undo(const Queue& queue) noexcept;
  bool capture_all(RegionCapture& capture, const Queue& queue);
  bool launch(const Queue& queue);
  void run_in_order(const Queue& queue);
  static void call(RegionTask& task, const Queue& queue);
  bool capture_one(RegionCapture& capture, RegionTask& task, const Queue& queue);
  void run_steps(RegionStepStream& stream, const Queue& queue, std::size_t begin, std::size_t end);
  bool has_branches() const noexcept;
  GraphShape shape(cudaGraph_t graph) const;

  const std::shared_ptr<CudaRegionGraphs> graphs_;
  ExecutableCache::Lease executable_;  // null: the tasks enqueue nothing
  PositionSet outside_;
  bool uses_handles_ = false;
  const RegionTask* blamed_ = nullptr;  // during a capture: whose body it would be that has spoilt it
  RegionWords words_;
  RegionKeeps keeps_;
};

}  // namespace sluice::detail
