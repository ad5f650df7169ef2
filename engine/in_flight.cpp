// Bytes in flight: counted, and what is too many.
#include <algorithm>
#include <cstdlib>

#include <sluice/engine/counters.h>
#include <sluice/engine/detail/in_flight.h>
#include <sluice/engine/engine.h>

namespace sluice::detail {

namespace {

constexpr std::uint64_t k_mib = std::uint64_t{1} << 20;
constexpr std::int64_t k_most_spare = 1 << 16;

// What a program does not say the environment may.
std::optional<std::uint64_t> chosen(const std::optional<std::uint64_t>& option, const char* variable) {
  if (option.has_value())
    return option;
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0')
    return {};
  return parse_bytes(text, variable);
}

// Some milliseconds of work for each worker, whatever it does with it, and little beside what the machine has.
std::uint64_t host_default(std::uint64_t size, int workers) noexcept {
  const std::uint64_t wanted = 32 * k_mib * static_cast<std::uint64_t>(workers);
  return std::max(32 * k_mib, size == 0 ? wanted : std::min(wanted, size / 256));
}
std::uint64_t gpu_default(std::uint64_t size) noexcept {
  return size == 0 ? 256 * k_mib : std::max(size / 64, 64 * k_mib);
}

}  // namespace

InFlight::InFlight(const EngineOptions& options)
    : host_limit_(chosen(options.max_bytes_in_flight, "SLUICE_MAX_BYTES_IN_FLIGHT")),
      gpu_limit_(chosen(options.max_gpu_bytes_in_flight, "SLUICE_MAX_GPU_BYTES_IN_FLIGHT")) {}

void InFlight::know_host(int workers) {
  static const std::uint64_t size = usable_memory();
  know(cpu(), host_limit_, host_default(size, workers));
  quantum_ = std::min(k_most_spare, static_cast<std::int64_t>(at(0).restraint.limit() / 256));
}

void InFlight::know_gpu(Device gpu, std::uint64_t size) {
  know(gpu, gpu_limit_, gpu_default(size));
}

void InFlight::know(Device home, const std::optional<std::uint64_t>& said, std::uint64_t usual) {
  Memory& memory = at(index_of(home));
  const std::lock_guard hold(mutex_);
  if (memory.known.load(std::memory_order_relaxed))
    return;
  const std::uint64_t limit = said.value_or(usual);
  memory.restraint.set(limit == 0 ? Restraint::k_none : std::min(limit, Restraint::k_none), std::max(limit, usual));
  memory.known.store(true, std::memory_order_release);
  used_.store(std::max(used_.load(), index_of(home) + 1));
}

// Each crossing of the limit is seen by exactly one change, so the number of crowded memories comes right.
void InFlight::publish(Memory& memory, std::int64_t bytes) noexcept {
  const auto limit = static_cast<std::int64_t>(memory.restraint.limit());
  const std::int64_t before = memory.bytes.fetch_add(bytes, std::memory_order_relaxed), after = before + bytes;
  if (bytes > 0) {
    for (std::int64_t peak = memory.peak.load(std::memory_order_relaxed);
         peak < after && !memory.peak.compare_exchange_weak(peak, after, std::memory_order_relaxed);) {
    }
    if (before <= limit && after > limit)
      crowded_.fetch_add(1, std::memory_order_relaxed);
  } else if (before > limit) {
    memory.freed.fetch_add(1, std::memory_order_relaxed);
    if (after <= limit)
      crowded_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void InFlight::add_counters(EngineCounters& sum, std::int64_t spare) const noexcept {
  const auto bytes = [](const std::atomic<std::int64_t>& of, std::int64_t more = 0) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, of.load(std::memory_order_relaxed) + more));
  };
  sum.bytes_in_flight = bytes(memories_[0].bytes, spare);
  sum.peak_bytes_in_flight = std::max(sum.bytes_in_flight, bytes(memories_[0].peak));
  for (std::size_t i = 1; i < memories_.size(); ++i) {
    sum.gpu_bytes_in_flight = std::max(sum.gpu_bytes_in_flight, bytes(memories_[i].bytes));
    sum.peak_gpu_bytes_in_flight = std::max(sum.peak_gpu_bytes_in_flight, bytes(memories_[i].peak));
  }
  sum.rests += rests_.load(std::memory_order_relaxed);
}

void InFlight::forget() noexcept {
  for (Memory& memory : memories_) {
    memory.bytes.store(0, std::memory_order_relaxed);
    memory.restraint.forget();
  }
  crowded_.store(0, std::memory_order_relaxed);
  ::new (static_cast<void*>(&mutex_)) std::mutex;  // a thread of the parent may have held it
}

}  // namespace sluice::detail
