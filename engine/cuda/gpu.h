#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <sluice/engine/cuda/batches.h>
#include <sluice/engine/cuda/body_calls.h>
#include <sluice/engine/cuda/device_loss.h>
#include <sluice/engine/cuda/direct_launch.h>
#include <sluice/engine/cuda/executable_cache.h>
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/cuda/stream_slots.h>

namespace sluice::detail {

class Core;
class StreamPolicy;

/// How GPU tasks are launched; see EngineOptions.
struct LaunchOptions {
  bool batches = true;
  bool one_stream = false;                  // for computation
  bool waits = false;                       // the host does, for each task
  std::optional<std::uint64_t> chaos = {};  // seed
};

/// Counts of one device's issuing, for any thread.
struct IssueCounts {
  std::atomic<std::uint64_t> stream_waits{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> batched{0};
  std::atomic<std::uint64_t> graphs_made{0};
  std::atomic<std::uint64_t> reissued{0};
};

/// One GPU as the engine drives it. A task comes to `issuer`, which decides who issues; `slots` say on which CUDA
/// stream, `direct` or `batches` how it is launched, `bodies` call it, `rules` know when to do which. Each part owns
/// what its header says; but for `issuer`, `loss`, `executables` and `counts`, only the thread that issues may call
/// them.
struct Gpu {
  Gpu(Core& with_core, StreamPolicy& with_policy, LogicalStreamTable& table, Device which, LaunchOptions how)
      : core(with_core),
        policy(with_policy),
        logical(table),
        device(which),
        options(how),
        loss(*this),
        rules(how.chaos),
        slots(*this),
        bodies(*this),
        direct(*this),
        batches(*this),
        issuer(*this, how.chaos) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  Core& core;
  StreamPolicy& policy;
  LogicalStreamTable& logical;  // of all GPUs
  const Device device;
  const LaunchOptions options;
  IssueCounts counts;
  DeviceLoss loss;
  LaunchRules rules;
  ExecutableCache executables;
  StreamSlots slots;
  BodyCalls bodies;
  DirectLaunch direct;
  Batches batches;
  Issuer issuer;
};

}  // namespace sluice::detail
