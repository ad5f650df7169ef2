#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/detail/own_launch.h>
#include <sluice/engine/region.h>
#include <sluice/ndarray/detail/buffers_kept.h>
#include <sluice/ndarray/detail/mapped.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/detail/derived_values.h>
#include <sluice/operator/graph/host_plan.h>

namespace sluice::graph {

#ifdef SLUICE_CUDA
/// A graph captured together with what brings its inputs from the host and its outputs back, in memory of its own. For
/// one thread at a time.
class HostRun {
 public:
  /// Null where it cannot be captured, ever, or would not be the same each time. Throws OutOfMemory. `graph` and
  /// `engine` must outlive its runs. derived: of which it runs the rest; null: it runs all.
  static std::unique_ptr<HostRun> make(const Graph& graph, std::shared_ptr<DerivedValues> derived, Engine& engine);
  HostRun(const HostRun&) = delete;
  HostRun& operator=(const HostRun&) = delete;
  ~HostRun();

  /// What it keeps is on its way, if it must be made again. False: it has to be captured anew. Throws what making that
  /// throws.
  bool renew(SourceLocation site);
  /// The first run, which captures. The host waits. False where that came to nothing. Throws what the run throws.
  bool run_first(std::span<const HostValues> inputs, std::span<const HostRoom> outputs, SourceLocation site);
  /// Of values that were checked. False where a plan has to do it: `outputs` may then be written, or not.
  bool run(std::span<const HostValues> inputs, std::span<const HostRoom> outputs);

 private:
  /// An array, and its place in `host_`.
  struct End {
    NDArray array;
    std::size_t at = 0, bytes = 0;
  };

  HostRun(const Graph& graph, std::shared_ptr<DerivedValues> derived, Engine& engine);
  bool is_capturable() const;
  Device device() const;
  void bind();
  void allocate_host();
  void capture(SourceLocation site);
  void put_in(std::span<const HostValues> inputs) noexcept;
  void take_out(std::span<const HostRoom> outputs) const noexcept;
  void push_fetch(const End& input, SourceLocation site) const;
  void push_delivery(const End& output, std::uint64_t* flag, SourceLocation site) const;
  std::uint64_t* flag() const noexcept { return reinterpret_cast<std::uint64_t*>(host_.data()); }
  bool has_landed() const noexcept;
  bool await();
  bool await_end();

  const std::shared_ptr<DerivedValues> derived_;
  const Graph& graph_;
  Engine& engine_;
  Binding binding_;
  sluice::detail::MappedMemory host_;  // the flag, inputs, outputs
  Var host_var_;
  std::vector<End> inputs_, outputs_;
  sluice::detail::BuffersKept kept_;  // what recorded calls made
  std::unique_ptr<Region> region_;
  std::unique_ptr<sluice::detail::OwnLaunch> launch_;  // goes first
  std::uint32_t forks_;
};
#endif

}  // namespace sluice::graph
