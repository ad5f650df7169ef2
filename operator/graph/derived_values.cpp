#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/detail/derived_values.h>

namespace sluice::graph {

namespace {

using sluice::detail::Buffer;
using sluice::detail::EngineAccess;

// Tasks that wrote it, those of regions that run again too, which raise no version. Nothing while one is to come.
std::optional<std::uint64_t> writes_done(const Buffer& buffer) noexcept {
  std::uint64_t sum = 0;
  for (const Buffer::Region& region : buffer.regions()) {
    const std::optional<std::uint64_t> done = EngineAccess::writes_done(region.var);
    if (!done)
      return std::nullopt;
    sum += *done;
  }
  return sum;
}

constexpr std::uint64_t k_unknown = ~std::uint64_t{0};

}  // namespace

std::shared_ptr<DerivedValues> DerivedValues::of(const Graph& graph, Engine& engine) {
  std::optional<DerivedSplit> split = split_derived(graph);
  return split ? std::make_shared<DerivedValues>(*std::move(split), engine) : nullptr;
}

DerivedValues::DerivedValues(DerivedSplit split, Engine& engine)
    : split_(std::move(split)), engine_(engine), sources_(split_.sources.size()) {
  verify(split_.derived);
  arena_ = std::make_unique<Arena>(split_.derived, PlanOptions{.share_memory = false}, engine);
  proof_.name = TaskName::lasting("derived values");
  for (const ValueId id : split_.kept) {
    const NDArray& array = arena_->array(id);
    split_.rest.values[id].array = array;
    sluice::detail::add_access(proof_.access, array, AccessMode::read);
    proof_.device = array.device();
  }
  verify(split_.rest);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].array = &split_.derived.values[split_.sources[i]].array;
    sources_[i].memory = sources_[i].array->object()->buffer;
  }
}

std::size_t DerivedValues::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const ValueId id : split_.kept) {
    const ArraySpec& spec = split_.rest.values[id].spec;
    bytes += static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
  }
  return bytes;
}

bool DerivedValues::has_seen_all() const noexcept {
  return std::all_of(sources_.begin(), sources_.end(), [](const Source& source) {
    const Buffer* const buffer = source.array->object()->buffer;
    return buffer == source.memory && buffer->version() == source.pushed.load(std::memory_order_acquire) &&
           writes_done(*buffer) == source.done.load(std::memory_order_relaxed);
  });
}

// An error of then may be forgiven by now. With the mutex held.
bool DerivedValues::has_failed() {
  if (is_made_.load(std::memory_order_relaxed))
    return false;
  if (!is_pushed_)
    return true;
  const TaskStatus status = proven_.status();
  if (status == TaskStatus::finished) {
    is_made_.store(true, std::memory_order_release);
    proven_ = {};
  }
  return status == TaskStatus::failed || status == TaskStatus::cancelled;
}

// With the mutex held.
void DerivedValues::make(SourceLocation site) {
  is_made_.store(false, std::memory_order_relaxed);
  is_pushed_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;  // before they are read
  for (const Source& source : sources_) {
    const Buffer* const buffer = source.array->object()->buffer;
    const std::uint64_t pushed = buffer->version();
    seen.emplace_back(pushed, writes_done(*buffer).value_or(k_unknown));
  }
  arena_->run({}, site);
  proven_ = engine_.push(
      proof_, [] {}, site);
  is_pushed_ = true;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].done.store(seen[i].second, std::memory_order_relaxed);
    sources_[i].pushed.store(seen[i].first, std::memory_order_release);
  }
}

DerivedValues::Renewal DerivedValues::renew(bool may_wait, SourceLocation site) {
  if (is_made_.load(std::memory_order_acquire) && has_seen_all())
    return Renewal::ready;
  std::unique_lock hold(mutex_, std::defer_lock);
  if (may_wait)
    hold.lock();
  else if (!hold.try_lock())
    return Renewal::busy;
  if (!is_current())
    return Renewal::outdated;
  if (has_failed() || !has_seen_all())
    make(site);
  return Renewal::ready;
}

}  // namespace sluice::graph
