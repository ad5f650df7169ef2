#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/writes_done.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/detail/derived_values.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

using sluice::detail::writes_done;

constexpr std::uint64_t k_unknown = ~std::uint64_t{0};

template <class T>
std::size_t place_of(const std::vector<T>& in, const T& one) {
  return static_cast<std::size_t>(std::find(in.begin(), in.end(), one) - in.begin());
}

// No longer one by one once all have finished.
bool have_finished(const std::vector<TaskHandle>& tasks) {
  return std::all_of(
      tasks.begin(), tasks.end(), [](const TaskHandle& task) { return task.status() == TaskStatus::finished; });
}

bool has_failed(const std::vector<TaskHandle>& tasks) {
  return std::any_of(tasks.begin(), tasks.end(), [](const TaskHandle& task) {
    const TaskStatus status = task.status();
    return status == TaskStatus::failed || status == TaskStatus::cancelled;
  });
}

// As far as it is known: while a write is to come, what was known before.
std::uint64_t failures_of(const NDArray& kept, std::uint64_t before) noexcept {
  const std::optional<std::uint64_t> done = writes_done(*kept.object()->buffer);
  return done ? sluice::detail::failures_in(*done) : before;
}

std::vector<ValueId> sources_of(const std::vector<DerivedGroup>& groups) {
  std::vector<ValueId> all;
  for (const DerivedGroup& group : groups)
    all.insert(all.end(), group.sources.begin(), group.sources.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

std::shared_ptr<DerivedValues> DerivedValues::of(const Graph& graph, Derives what, Engine& engine) {
  std::optional<DerivedSplit> split = split_derived(graph, what);
  return split ? std::make_shared<DerivedValues>(*std::move(split), engine) : nullptr;
}

DerivedValues::DerivedValues(DerivedSplit split, Engine& engine) : split_(std::move(split)), engine_(engine) {
  const Graph& derived = split_.derived;
  verify(derived);
  {
    const Binding binding(derived, Sharing::proven, engine);  // says how arrays lie
    for (const ValueId id : derived.outputs)
      kept_.emplace_back(id, binding.new_outside(id, engine));
  }
  for (const auto& [id, array] : kept_)
    split_.rest.values[id].array = array;
  verify(split_.rest);
  const std::vector<ValueId> sources = sources_of(split_.groups);
  sources_ = std::vector<ReadConstant>(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    sources_[i].constant = Held(derived.values[sources[i]].array);
  for (const DerivedGroup& group : split_.groups) {
    Part& part = parts_.emplace_back();
    part.nodes = group.nodes;
    for (const ValueId id : group.sources)
      part.sources.push_back(place_of(sources, id));
    for (const ValueId id : group.kept)
      part.kept.push_back(place_of(derived.outputs, id));
  }
}

std::size_t DerivedValues::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [id, array] : kept_)
    bytes += static_cast<std::size_t>(array.size()) * size_of(array.dtype());
  return bytes;
}

bool DerivedValues::is_current() const {
  return std::all_of(
      sources_.begin(), sources_.end(), [](const ReadConstant& source) { return source.constant.is_current(); });
}

bool DerivedValues::has_seen_all() const noexcept {
  return precision_.load(std::memory_order_relaxed) == sluice::detail::current_float32_precision() &&
         std::all_of(sources_.begin(), sources_.end(), [](const ReadConstant& source) {
           return source.constant.is_current() &&
                  writes_done(source.constant.buffer()) == source.seen.load(std::memory_order_acquire);
         });
}

// With the mutex held.
void DerivedValues::make(const std::vector<Part*>& parts, SourceLocation site) {
  std::vector<bool> nodes(split_.derived.nodes.size());
  for (Part* const part : parts) {
    part->is_made = false;
    part->proofs.clear();
    part->failures.resize(part->kept.size());
    for (std::size_t i = 0; i < part->kept.size(); ++i)
      part->failures[i] = failures_of(kept_[part->kept[i]].second, part->failures[i]);
    for (const std::size_t at : part->nodes)
      nodes[at] = true;
  }
  const sluice::detail::ApartScope for_all;
  const EngineScope here(engine_);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  replay(split_.derived, {}, {.given = kept_, .only = &nodes});
  for (Part* const part : parts) {
    std::vector<TaskHandle> proofs;
    for (const std::size_t at : part->kept) {
      const NDArray& array = kept_[at].second;
      Task proof{.name = TaskName::lasting("derived values"), .device = array.device()};
      sluice::detail::add_access(proof.access, array, AccessMode::read);
      proofs.push_back(engine_.push(
          proof, [] {}, site));
    }
    part->proofs = std::move(proofs);
  }
}

// Its proofs may be on their way still, when what reads it has told already.
bool DerivedValues::was_skipped(const Part& part) const noexcept {
  for (std::size_t i = 0; i < part.kept.size(); ++i) {
    if (failures_of(kept_[part.kept[i]].second, part.failures[i]) != part.failures[i])
      return true;
  }
  return false;
}

// With the mutex held. What is wrong with a part may be forgiven by now.
void DerivedValues::renew_parts(SourceLocation site) {
  const Float32Precision precision = sluice::detail::current_float32_precision();
  const bool other_precision = precision != precision_.load(std::memory_order_relaxed);
  std::vector<std::uint64_t> seen;  // before they are read
  for (const ReadConstant& source : sources_)
    seen.push_back(writes_done(source.constant.buffer()).value_or(k_unknown));
  const auto is_written = [&](std::size_t source) {
    return seen[source] == k_unknown || seen[source] != sources_[source].seen.load(std::memory_order_relaxed);
  };
  std::vector<Part*> anew;
  bool all_made = true;
  for (Part& part : parts_) {
    if (!part.is_made && !part.proofs.empty() && have_finished(part.proofs)) {
      part.is_made = true;
      part.proofs.clear();
    }
    const bool could_not = !part.is_made && (part.proofs.empty() || has_failed(part.proofs) || was_skipped(part));
    if (other_precision || could_not || std::any_of(part.sources.begin(), part.sources.end(), is_written))
      anew.push_back(&part);
    all_made = all_made && part.is_made;
  }
  is_made_.store(all_made && anew.empty(), std::memory_order_release);
  if (anew.empty())
    return;
  make(anew, site);
  precision_.store(precision, std::memory_order_relaxed);
  for (std::size_t i = 0; i < sources_.size(); ++i)
    sources_[i].seen.store(seen[i], std::memory_order_release);
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
  renew_parts(site);
  return Renewal::ready;
}

}  // namespace sluice::graph
