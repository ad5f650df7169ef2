#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/storage/detail/make_pool.h>
#include <sluice/storage/detail/source.h>
#include <sluice/storage/detail/text.h>
#include <sluice/storage/snapshot.h>
#include <sluice/storage/storage.h>

namespace sluice {
namespace {

using detail::EngineAccess;

constexpr int k_max_gpus = 64;

class EnginePassage final : public detail::Passage {
 public:
  explicit EnginePassage(Engine& engine) noexcept : engine_(engine) {}
  bool passed(const PositionSet& positions) const noexcept override { return EngineAccess::passed(engine_, positions); }
  bool copies(Position position) const noexcept override { return EngineAccess::on_copy_stream(engine_, position); }
  void wait_passed(const PositionSet& positions) override { EngineAccess::wait_passed(engine_, positions); }
  bool await_task() override { return EngineAccess::await_task(engine_); }
  std::uint64_t live_tasks() const override {
    const EngineCounters now = engine_.counters();
    return now.pushed - std::min(now.pushed, now.retired);
  }
  void relieve(Device device) override { EngineAccess::relieve_memory(engine_, device); }

 private:
  Engine& engine_;
};

}  // namespace

struct Storage::Pools {
  /// One pool, made at first use; the pointer is read without the lock.
  struct Place {
    std::atomic<Pool*> ready{nullptr};
    std::unique_ptr<Pool> pool;
    std::string_view chosen;  // strategy
  };

  explicit Pools(Engine& engine) : passage(engine) {
    const char* chosen = std::getenv("SLUICE_POOL");
    if (chosen == nullptr || *chosen == '\0')
      return;
    options.device = detail::known_pool(chosen, MemoryKind::device);
    if (options.device != "cuda_async" && options.device != "paged")
      options.host = options.pinned = options.device;
  }

  Place& place(Device where, MemoryKind kind) {
    require<ValueError>(where.is_gpu() == (kind == MemoryKind::device), [&] {
      return message(
          "storage: ", where, " has no memory of that kind; device memory belongs to GPUs, the rest to CPUs");
    });
    if (kind != MemoryKind::device)
      return host_places[kind == MemoryKind::pinned ? 1 : 0];
    require<DeviceError>(
        where.index >= 0 && where.index < k_max_gpus, [&] { return message("storage: there is no ", where); });
    return gpu_places[where.index];
  }

  Pool& make(Place& at, Device where, MemoryKind kind) {
    const std::lock_guard lock(mutex);
    if (at.pool == nullptr) {
      at.chosen = choice(options, kind);
      auto pool = detail::make_pool(passage, at.chosen, where.is_gpu() ? where : cpu(), kind, options);
      pool->set_limit(limit(options, kind));
      for (int peer = 0; where.is_gpu() && peer < k_max_gpus; ++peer) {
        if (are_connected(where.index, peer))
          pool->share(gpu(peer));
      }
      at.pool = std::move(pool);
      at.ready.store(at.pool.get(), std::memory_order_release);
    }
    return *at.pool;
  }

  static std::uint64_t bit(int gpu) noexcept { return std::uint64_t{1} << gpu; }
  bool was_asked(int a, int b) const noexcept { return (asked[a].load(std::memory_order_acquire) & bit(b)) != 0; }
  bool are_connected(int a, int b) const noexcept {
    return (connected[a].load(std::memory_order_relaxed) & bit(b)) != 0;
  }
  /// Said to be so only when both pools are shared.
  bool connect(int a, int b) {
    const std::lock_guard lock(mutex);
    if (was_asked(a, b))
      return are_connected(a, b);  // somebody else did meanwhile
    const bool can = try_to_connect(a, b);
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      connected[from].fetch_or(can ? bit(to) : 0, std::memory_order_relaxed);
      asked[from].fetch_or(bit(to), std::memory_order_release);
    }
    return can;
  }
  bool try_to_connect([[maybe_unused]] int a, [[maybe_unused]] int b) {
#ifdef SLUICE_CUDA
    try {
      if (!detail::connect_gpus(a, b))
        return false;
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        if (gpu_places[from].pool != nullptr)
          gpu_places[from].pool->share(gpu(to));
      }
      return true;
    } catch (const CudaError&) {  // copies go by way of the host, as before
    }
#endif
    return false;
  }

  static std::string_view choice(const StorageOptions& from, MemoryKind kind) {
    const std::string& name = kind == MemoryKind::host     ? from.host
                              : kind == MemoryKind::pinned ? from.pinned
                                                           : from.device;
    return detail::known_pool(name, kind);
  }
  static std::size_t limit(const StorageOptions& from, MemoryKind kind) noexcept {
    return kind == MemoryKind::host     ? from.host_limit
           : kind == MemoryKind::pinned ? from.pinned_limit
                                        : from.device_limit;
  }
  /// visit(place, kind) for every pool that there may be.
  template <class Visit>
  void each(Visit&& visit) {
    visit(host_places[0], MemoryKind::host);
    visit(host_places[1], MemoryKind::pinned);
    for (Place& at : gpu_places)
      visit(at, MemoryKind::device);
  }

  EnginePassage passage;
  std::mutex mutex;
  const detail::ForkWatch forks{&mutex, [](void* held, detail::ForkMoment moment) noexcept {
                                  if (moment == detail::ForkMoment::in_child)  // whoever holds it is not there
                                    ::new (held) std::mutex;
                                }};
  StorageOptions options;
  std::array<Place, 2> host_places;  // host, pinned
  std::array<Place, k_max_gpus> gpu_places;
  std::array<std::atomic<std::uint64_t>, k_max_gpus> asked{}, connected{};  // a bit for each other GPU
};

Storage::Storage(Engine& engine) : pools_(std::make_unique<Pools>(engine)) {
  EngineAccess::on_memory_pressure(engine, [this](Device device) { empty_cache(device); });
}

Storage::~Storage() = default;

Storage& Storage::of(Engine& engine) {
  return engine.extension<Storage>();
}

void Storage::configure(const StorageOptions& options) {
  for (const MemoryKind kind : {MemoryKind::host, MemoryKind::pinned, MemoryKind::device})
    Pools::choice(options, kind);
  require<ValueError>(options.segment_bytes > 0, [] { return std::string("storage: segment_bytes is 0"); });
  const std::lock_guard lock(pools_->mutex);
  const bool same_sizes = options.segment_bytes == pools_->options.segment_bytes &&
                          options.release_threshold == pools_->options.release_threshold;
  pools_->each([&](const Pools::Place& at, MemoryKind kind) {
    if (at.pool == nullptr)
      return;
    const bool sized = at.chosen == "split" || at.chosen == "paged";
    require<ValueError>(at.chosen == Pools::choice(options, kind) && (same_sizes || !sized), [&] {
      return message(
          "storage: the pool of ",
          detail::word_of(kind),
          " is in use as ",
          at.chosen,
          "; choose before the first array");
    });
  });
  const StorageOptions before = std::exchange(pools_->options, options);
  pools_->each([&](const Pools::Place& at, MemoryKind kind) {
    if (at.pool != nullptr && Pools::limit(options, kind) != Pools::limit(before, kind))
      at.pool->set_limit(Pools::limit(options, kind));
  });
}

Pool& Storage::pool(Device device, MemoryKind kind) {
  Pools::Place& at = pools_->place(device, kind);
  if (Pool* ready = at.ready.load(std::memory_order_acquire))
    return *ready;
  return pools_->make(at, device, kind);
}

bool Storage::connect(Device a, Device b) {
  for (const Device each : {a, b}) {
    require<DeviceError>(each.is_gpu() && each.index >= 0 && each.index < std::min(num_gpus(), k_max_gpus), [&] {
      return message(
          "storage: connect(", a, ", ", b, "): there is no ", each, "; this process has ", num_gpus(), " GPU(s)");
    });
  }
  if (a.index == b.index)
    return true;
  if (pools_->was_asked(a.index, b.index))
    return pools_->are_connected(a.index, b.index);
  return pools_->connect(a.index, b.index);
}

std::size_t Storage::empty_cache(Device device) {
  std::size_t bytes = 0;
  const auto trim = [&](const Pools::Place& at) {
    if (Pool* ready = at.ready.load(std::memory_order_acquire))
      bytes += ready->trim();
  };
  if (device.is_cpu()) {
    for (const Pools::Place& at : pools_->host_places)
      trim(at);
  } else if (device.index >= 0 && device.index < k_max_gpus) {
    trim(pools_->gpu_places[device.index]);
  }
  return bytes;
}

MemoryStats memory_stats(Device device) {
  return Storage::of(Engine::current()).pool(device).stats();
}

std::size_t empty_cache(Device device) {
  return Storage::of(Engine::current()).empty_cache(device);
}

std::string memory_snapshot(Device device) {
  return to_json(Storage::of(Engine::current()).pool(device).snapshot());
}

std::string memory_summary(Device device) {
  return to_text(Storage::of(Engine::current()).pool(device).snapshot());
}

void save_memory_picture(Device device, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  require<FileError>(file.is_open(), [&] { return message("storage: ", path, " cannot be written"); });
  file << to_html(Storage::of(Engine::current()).pool(device).snapshot());
  file.close();
  require<FileError>(!file.fail(), [&] { return message("storage: writing ", path, " failed"); });
}

void record_memory_history(Device device, std::size_t events) {
  Storage::of(Engine::current()).pool(device).record_history(events);
}

}  // namespace sluice
