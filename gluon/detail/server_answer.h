#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::detail {

/// What a batch of requests will be told, together: one flag to set and to wait for, whatever their number.
class ServerAnswer {
 public:
  struct Output {
    Shape row;  // shape for one sample
    DType dtype = float32;
    std::size_t row_bytes = 0;
    std::vector<std::byte> values;  // rows of all samples
  };

  /// Samples that are written. Here, as who writes the last one may still be telling so when the batch is gone.
  void note_filled() noexcept;
  /// Waits until so many are.
  void wait_filled(std::int64_t samples) const noexcept;

  bool done() const noexcept { return done_.load(std::memory_order_acquire) != 0; }
  /// Throws Forked, as then() does, in a forked child where it was not there before.
  void wait() const;
  /// Once, by who runs the batch. What it calls may throw in vain.
  void finish(std::vector<Output> outputs, std::exception_ptr error) noexcept;
  void then(std::function<void()> call);

  /// Once it is done:
  const std::vector<Output>& outputs() const noexcept { return outputs_; }

 private:
  void check_here() const;

  const std::uint32_t forks_ = sluice::detail::fork_count();
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> filled_{0};
  std::vector<Output> outputs_;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace sluice::gluon::detail
