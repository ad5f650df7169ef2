// The strategies by name: the one place.
#include <array>

#include <sluice/engine/error.h>
#include <sluice/storage/detail/make_pool.h>
#include <sluice/storage/detail/paged_pool.h>
#include <sluice/storage/detail/shelf_pool.h>
#include <sluice/storage/detail/split_pool.h>

namespace sluice::detail {
namespace {

constexpr std::array<std::string_view, 5> k_names{"bucket", "direct", "split", "paged", "cuda_async"};

bool fits(std::string_view name, MemoryKind kind) noexcept {
  return (name != "cuda_async" && name != "paged") || kind == MemoryKind::device;
}

std::unique_ptr<MemorySource> make_source([[maybe_unused]] Device device, MemoryKind kind) {
  if (kind == MemoryKind::host)
    return make_host_source();
#ifdef SLUICE_CUDA
  if (kind == MemoryKind::pinned && num_gpus() > 0)
    return make_pinned_source();
  if (kind == MemoryKind::device && device.index >= 0 && device.index < num_gpus())
    return make_gpu_source(device.index);
#endif
  if (kind == MemoryKind::pinned)
    throw DeviceError("storage: pinned memory needs a GPU, and this process has none");
  throw DeviceError(message("storage: there is no ", device, "; this process has ", num_gpus(), " GPU(s)"));
}

}  // namespace

std::string names_of_pools(MemoryKind kind) {
  std::string list;
  for (std::string_view name : k_names) {
    if (fits(name, kind))
      list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

std::string_view known_pool(std::string_view name, MemoryKind kind) {
  for (std::string_view known : k_names) {
    if (known == name && fits(known, kind))
      return known;
  }
  const char* const what = kind == MemoryKind::host ? "host" : kind == MemoryKind::pinned ? "pinned" : "device";
  throw ValueError(message(
      "storage: there is no pool named \"", name, "\" for ", what, " memory; there are ", names_of_pools(kind)));
}

std::unique_ptr<Pool> make_pool(
    Passage& passage, std::string_view name, Device device, MemoryKind kind, const StorageOptions& options) {
  const bool gpu = kind == MemoryKind::device;
#ifdef SLUICE_CUDA
  if (name == "cuda_async" && device.index < num_gpus()) {
    auto source = make_async_source(device.index);
    const SizeRule rule = exact_rule(source->alignment());
    return std::make_unique<DirectPool>(passage, "cuda_async", rule, std::move(source));
  }
  if (name == "paged" && device.index >= 0 && device.index < num_gpus()) {
    const SplitOptions paged{.release_threshold = options.release_threshold, .merge_pending = false};
    if (auto pages = make_page_source(device.index)) {
      const std::size_t line = pages->addresses();
      return std::make_unique<PagedPool>(passage, std::move(pages), line, paged);
    }
  }
#endif
  auto source = make_source(device, kind);
  const std::size_t alignment = source->alignment();
  if (name == "split" || name == "paged") {
    const SplitOptions split{.large_segment = options.segment_bytes, .release_threshold = options.release_threshold};
    return std::make_unique<SplitPool>(passage, std::move(source), split);
  }
  if (name == "direct")
    return std::make_unique<DirectPool>(passage, "direct", exact_rule(alignment), std::move(source));
  return std::make_unique<ShelfPool>(passage, bucket_rule(alignment, gpu), std::move(source));
}

}  // namespace sluice::detail

namespace sluice {

std::vector<std::string> pool_names(MemoryKind kind) {
  std::vector<std::string> names;
  for (std::string_view name : detail::k_names) {
    if (detail::fits(name, kind))
      names.emplace_back(name);
  }
  return names;
}

}  // namespace sluice
