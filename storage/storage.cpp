#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include <sluice/engine/engine.h>
#include <sluice/storage/detail/shelf_pool.h>
#include <sluice/storage/storage.h>

namespace sluice {
namespace {

constexpr std::array k_names{std::string_view("bucket"), std::string_view("direct")};
constexpr int k_max_gpus = 64;

/// The strategy's own copy of its name. Throws ValueError.
std::string_view known_name(const std::string& name) {
  for (std::string_view known : k_names) {
    if (known == name)
      return known;
  }
  throw ValueError(message("storage: there is no pool named \"", name, "\"; there are bucket and direct"));
}

std::unique_ptr<detail::Source> make_source([[maybe_unused]] Device device, MemoryKind kind) {
  if (kind == MemoryKind::host)
    return detail::make_host_source();
#ifdef SLUICE_CUDA
  if (kind == MemoryKind::pinned && num_gpus() > 0)
    return detail::make_pinned_source();
  if (kind == MemoryKind::device && device.index >= 0 && device.index < num_gpus())
    return detail::make_gpu_source(device.index);
#endif
  if (kind == MemoryKind::pinned)
    throw DeviceError("storage: pinned memory needs a GPU, and this process has none");
  throw DeviceError(message("storage: there is no ", device, "; this process has ", num_gpus(), " GPU(s)"));
}

class EnginePassage final : public detail::Passage {
 public:
  explicit EnginePassage(Engine& engine) noexcept : engine_(engine) {}
  bool passed(const PositionSet& positions) const noexcept override { return engine_.passed(positions); }
  bool copies(Position position) const noexcept override { return engine_.on_copy_stream(position); }
  void wait_passed(const PositionSet& positions) override { engine_.wait_passed(positions); }
  void relieve(Device device) override { engine_.relieve_memory(device); }

 private:
  Engine& engine_;
};

}  // namespace

struct Storage::Pools {
  /// One pool, made at first use; the pointer is read without the lock.
  struct Place {
    std::atomic<Pool*> ready{nullptr};
    std::unique_ptr<Pool> pool;
  };

  explicit Pools(Engine& engine) : passage(engine) {
    if (const char* chosen = std::getenv("SLUICE_POOL"); chosen != nullptr && *chosen != '\0')
      host = pinned = device = known_name(chosen);
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
      const std::string_view name = kind == MemoryKind::host ? host : kind == MemoryKind::pinned ? pinned : device;
      auto source = make_source(where.is_gpu() ? where : cpu(), kind);
      const bool cached = name == "bucket";
      const auto rule =
          cached ? detail::bucket_rule(source->alignment(), where.is_gpu()) : detail::exact_rule(source->alignment());
      at.pool = std::make_unique<detail::ShelfPool>(
          passage, name, rule, cached ? detail::Keep::cached : detail::Keep::until_passed, std::move(source));
      at.ready.store(at.pool.get(), std::memory_order_release);
    }
    return *at.pool;
  }

  EnginePassage passage;
  std::mutex mutex;
  std::string_view host = k_names[0], pinned = k_names[0], device = k_names[0];
  std::array<Place, 2> host_places;  // host, pinned
  std::array<Place, k_max_gpus> gpu_places;
};

Storage::Storage(Engine& engine) : pools_(std::make_unique<Pools>(engine)) {
  engine.on_memory_pressure([this](Device device) { empty_cache(device); });
}

Storage::~Storage() = default;

Storage& Storage::of(Engine& engine) {
  return engine.extension<Storage>();
}

void Storage::configure(const StorageOptions& options) {
  const std::string_view host = known_name(options.host);
  const std::string_view pinned = known_name(options.pinned);
  const std::string_view device = known_name(options.device);
  const std::lock_guard lock(pools_->mutex);
  const auto check = [](const Pools::Place& at, std::string_view name, const char* what) {
    require<ValueError>(at.pool == nullptr || at.pool->name() == name, [&] {
      return message("storage: the ", what, " pool is in use as ", at.pool->name(), "; choose before the first array");
    });
  };
  check(pools_->host_places[0], host, "host");
  check(pools_->host_places[1], pinned, "pinned");
  for (const Pools::Place& at : pools_->gpu_places)
    check(at, device, "device");
  pools_->host = host;
  pools_->pinned = pinned;
  pools_->device = device;
}

Pool& Storage::pool(Device device, MemoryKind kind) {
  Pools::Place& at = pools_->place(device, kind);
  if (Pool* ready = at.ready.load(std::memory_order_acquire))
    return *ready;
  return pools_->make(at, device, kind);
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

std::vector<std::string> pool_names() {
  return {k_names.begin(), k_names.end()};
}

MemoryStats memory_stats(Device device) {
  return Storage::of(Engine::current()).pool(device).stats();
}

std::size_t empty_cache(Device device) {
  return Storage::of(Engine::current()).empty_cache(device);
}

}  // namespace sluice
