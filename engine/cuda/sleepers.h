#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/device.h>

namespace sluice::detail {

/// Where host threads sleep until an event of a GPU has passed.
class Sleepers {
 public:
  /// Blocks the calling thread, asleep in the driver. Throws CudaError.
  void sleep_until(Device device, cudaEvent_t event);
  void clear() noexcept { idle_.clear(); }

 private:
  struct Sleeper {
    cuda::StreamHandle stream;
    cuda::EventHandle wake;
  };
  Sleeper take(Device device);

  std::mutex mutex_;
  std::map<int, std::vector<Sleeper>> idle_;  // by device
};

}  // namespace sluice::detail
