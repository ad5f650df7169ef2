#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include <sluice/engine/detail/restraint.h>
#include <sluice/engine/device.h>

namespace sluice {
struct EngineOptions;
struct EngineCounters;
}  // namespace sluice

namespace sluice::detail {

/// Bytes in flight: memory behind Vars whose last handle is gone while tasks still use them, so that unfinished tasks
/// alone hold it. For host memory, pinned or not, and for each GPU's.
class InFlight {
 public:
  static constexpr int k_memories = 65;  // the host's, and those of 64 GPUs; more GPUs share the last

  /// One memory. Several threads change it, those who push look at it.
  struct alignas(64) Memory {
    std::atomic<std::int64_t> bytes{0};
    std::atomic<std::uint64_t> freed{0};  // times that some went while there was too much
    std::atomic<std::int64_t> peak{0};
    std::atomic<bool> known{false};  // its limit is
    Restraint restraint;

    std::uint64_t held() const noexcept {
      const std::int64_t now = bytes.load(std::memory_order_relaxed);
      return now > 0 ? static_cast<std::uint64_t>(now) : 0;
    }
    std::uint64_t progress() const noexcept { return freed.load(std::memory_order_relaxed); }
    /// Pushers have to rest for it.
    bool is_too_full() const noexcept { return held() > restraint.allowed(progress()); }
  };

  /// Throws ValueError where the environment says something that is no number of bytes.
  explicit InFlight(const EngineOptions& options);

  static int index_of(Device home) noexcept {
    return home.is_cpu() ? 0 : home.index < k_memories - 1 ? 1 + home.index : k_memories - 1;
  }
  Memory& at(int memory) noexcept { return memories_[static_cast<std::size_t>(memory)]; }
  /// Only the first so many may have something in flight.
  int memories() const noexcept { return used_.load(std::memory_order_relaxed); }

  bool knows(Device home) const noexcept {
    return memories_[static_cast<std::size_t>(index_of(home))].known.load(std::memory_order_acquire);
  }
  /// To be called before anything of it is in flight. `size` is that of the GPU's memory, 0 if nobody can tell.
  void know_host(int workers);
  void know_gpu(Device gpu, std::uint64_t size);

  /// `spare` is what the calling thread alone keeps of host memory until it is worth telling; null if it has none.
  void change(Device home, std::int64_t bytes, std::atomic<std::int64_t>* spare) noexcept {
    const int memory = index_of(home);
    if (memory == 0 && spare != nullptr) {
      bytes += spare->load(std::memory_order_relaxed);
      if (bytes < quantum_ && bytes > -quantum_)
        return spare->store(bytes, std::memory_order_relaxed);
      spare->store(0, std::memory_order_relaxed);
    }
    publish(at(memory), bytes);
  }

  /// True if some memory has more in flight than its limit: the one look that every push takes.
  bool is_crowded() const noexcept { return crowded_.load(std::memory_order_relaxed) > 0; }
  void count_rest() noexcept { rests_.fetch_add(1, std::memory_order_relaxed); }
  /// `spare` is what threads keep for themselves.
  void add_counters(EngineCounters& sum, std::int64_t spare) const noexcept;
  /// In a forked child: none of it is in this process.
  void forget() noexcept;

 private:
  void know(Device home, const std::optional<std::uint64_t>& said, std::uint64_t usual);
  void publish(Memory& memory, std::int64_t bytes) noexcept;

  const std::optional<std::uint64_t> host_limit_, gpu_limit_;  // as they were chosen; 0: none
  std::int64_t quantum_ = 0;
  std::mutex mutex_;
  std::array<Memory, k_memories> memories_;
  std::atomic<int> used_{1};
  alignas(64) std::atomic<int> crowded_{0};  // memories above their limits
  std::atomic<std::uint64_t> rests_{0};
};

/// Bytes of memory that this process may use: the machine's, or less where its control group says so. 0 if unknown.
std::uint64_t usable_memory();
/// The least limit of a control group and those above it, from a file like /proc/self/cgroup and the place where
/// control groups are mounted; 0 if there is none.
std::uint64_t cgroup_limit(const char* membership, const char* mount);
/// "4096", "64K", "64M", "2G". Throws ValueError that names `what`.
std::uint64_t parse_bytes(const char* text, const char* what);

}  // namespace sluice::detail
