#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/engine/detail/unseen_writes.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/arena.h>

namespace sluice::graph {

namespace {

// Each keeps scratch memory of its own. A region knows eight keys, the arena's own arrays are one.
constexpr std::size_t k_most_recordings = 4;
// A recording costs what some dozen copies cost: in the long run one in so many runs at most.
constexpr double k_runs_a_recording = 16;
constexpr std::size_t k_most_seen = 8;
// Beside so much memory copies of inputs and results are nothing, if they are a sixteenth of it at most: one recording
// does.
constexpr std::size_t k_large_plan = std::size_t{256} << 20, k_small_part = 16;
// A caller who replaces a result by the next one needs two sets.
constexpr std::size_t k_most_kept = 2, k_most_kept_bytes = 256 * 1024;

Sharing sharing_of(const PlanOptions& options) {
  if (!options.share_memory)
    return Sharing::none;
  return options.share_in_order ? Sharing::in_order : Sharing::proven;
}

}  // namespace

Arena::Arena(const Graph& graph, const PlanOptions& options, Engine& engine)
    : graph_(graph), engine_(engine), binding_(graph, sharing_of(options), engine), poisons_(options.poison) {
  for (const ValueId value : binding_.outside()) {
    if (graph.values[value].source != Source::input)
      continue;
    ++results_begin_;
    const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), value);
    input_numbers_.push_back(static_cast<std::size_t>(at - graph.inputs.begin()));
  }
  find_segments();
  is_large_ = is_large();
  keeps_results_ = options.keep_results && are_results_small() && !is_large_;
  credit_ = k_most_recordings;
}

void Arena::find_segments() {
  const std::vector<Binding::Step>& steps = binding_.steps();
  std::optional<Device> before;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const std::optional<Device> gpu = steps[at].capturable ? std::optional(steps[at].device) : std::nullopt;
    if (segments_.empty() || gpu != before) {
      segments_.push_back({.begin = at});
      if (gpu)
        segments_.back().region = std::make_unique<Region>(engine_, *gpu, "plan");
      records_ = records_ || gpu;
      before = gpu;
    }
    segments_.back().end = at + 1;
    segments_.back().has_branches = segments_.back().has_branches || steps[at].branch != nullptr;
  }
}

// Where CUDA refuses a graph with branches, the plan is cut at these: what lies between them still is CUDA graphs. The
// run that was refused has called its tasks one by one.
void Arena::take_refused_branches_apart() {
  const bool is_refused = std::any_of(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.has_branches && segment.region->counts().in_order != 0 && segment.region->refusal().has_value();
  });
  if (!is_refused)
    return;
  recordings_.clear();
  own_recording_ = nullptr;
  credit_ = k_most_recordings;
  segments_.clear();
  records_ = false;
  binding_.take_branches_apart();
  find_segments();
}

std::size_t Arena::bytes_outside(std::size_t begin) const {
  std::size_t bytes = 0;
  for (std::size_t i = begin; i < binding_.outside().size(); ++i) {
    const ArraySpec& spec = graph_.values[binding_.outside()[i]].spec;
    bytes += static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
  }
  return bytes;
}

bool Arena::are_results_small() const {
  const std::size_t bytes = bytes_outside(results_begin_);
  return bytes > 0 && bytes <= k_most_kept_bytes;
}

bool Arena::is_large() const {
  const MemoryPlan& memory = binding_.memory();
  const std::size_t inside = bytes_of(memory) - memory.bytes_apart;
  return inside >= k_large_plan && bytes_outside(0) <= inside / k_small_part;
}

void Arena::add_results(Arrays& arrays) {
  const std::vector<ValueId>& outside = binding_.outside();
  auto unused = std::find_if(
      kept_results_.begin(), kept_results_.end(), [](const auto& results) { return results->are_unused(); });
  if (unused == kept_results_.end() && keeps_results_ && kept_results_.size() < k_most_kept) {
    Arrays made;
    for (std::size_t i = results_begin_; i < outside.size(); ++i)
      made.push_back(binding_.new_outside(outside[i], engine_));
    kept_results_.push_back(std::make_unique<KeptResults>(std::move(made)));
    unused = kept_results_.end() - 1;
  }
  const bool serve_again = unused != kept_results_.end();
  for (std::size_t i = results_begin_; i < outside.size(); ++i)
    arrays.push_back(
        serve_again ? binding_.outside_on((*unused)->arrays()[i - results_begin_], outside[i])
                    : binding_.new_outside(outside[i], engine_));
}

void Arena::bring(std::span<const NDArray> inputs, Arrays& arrays, SourceLocation site) {
  for (std::size_t i = 0; i < results_begin_; ++i) {
    const ValueId value = binding_.outside()[i];
    if (binding_.takes(value, inputs[input_numbers_[i]])) {
      arrays.push_back(inputs[input_numbers_[i]]);
      continue;
    }
    arrays.push_back(binding_.new_outside(value, engine_));
    copy_into(inputs[input_numbers_[i]], arrays.back(), site);
  }
  add_results(arrays);
}

// Addresses that come again are worth a recording; at first all are thought to.
bool Arena::is_worth_recording(const std::vector<const void*>& addresses) {
  const auto found = std::find(seen_.begin(), seen_.end(), addresses);
  const bool comes_again = found != seen_.end();
  if (credit_ >= (comes_again ? 1 : k_most_recordings / 2)) {
    if (comes_again)
      seen_.erase(found);
    credit_ -= 1;
    return true;
  }
  if (!comes_again) {
    if (seen_.size() >= k_most_seen)
      seen_.pop_back();
    seen_.push_front(addresses);
  }
  return false;
}

// For addresses_.
Arena::Recording& Arena::new_recording() {
  if (recordings_.size() >= k_most_recordings)
    recordings_.pop_back();
  Recording& made = recordings_.emplace_front();
  made.addresses = addresses_;
  made.key = ++keys_;
  for (std::size_t i = 0; i < segments_.size(); ++i)
    made.kept.push_back(std::make_unique<sluice::detail::BuffersKept>());
  return made;
}

// Null: there is none. Afterwards addresses_ are those of `arrays`.
Arena::Recording* Arena::find_recording(const Arrays& arrays) {
  addresses_.clear();
  for (const NDArray& array : arrays)
    addresses_.push_back(array.object()->data());
  const auto known = std::find_if(
      recordings_.begin(), recordings_.end(), [&](const Recording& one) { return one.addresses == addresses_; });
  if (known == recordings_.end())
    return nullptr;
  if (known != recordings_.begin())
    std::rotate(recordings_.begin(), known, known + 1);
  return &recordings_.front();
}

// Null: none, and not to be made.
Arena::Recording* Arena::recording_for(const Arrays& arrays) {
  if (Recording* const known = find_recording(arrays); known != nullptr)
    return known;
  return is_worth_recording(addresses_) ? &new_recording() : nullptr;
}

void Arena::run_segment(std::size_t at, Recording* recording, SourceLocation site) {
  const Segment& segment = segments_[at];
  const auto run = [&] {
    for (std::size_t step = segment.begin; step < segment.end; ++step)
      Binding::run(binding_.steps()[step]);
  };
  if (segment.region == nullptr)
    return run();
  const sluice::detail::SeenWrites told;  // by raise_versions()
  segment.region->run(
      recording->key,
      changing_,
      [&] {
        recording->kept[at]->clear();
        const sluice::detail::BuffersKept::Scope keep(*recording->kept[at]);
        run();
      },
      site);
}

void Arena::run_with(const Arrays& arrays, Recording* recording, SourceLocation site) {
  const Attached attached(binding_, arrays);
  changing_.clear();
  if (recording != nullptr) {
    for (const NDArray& array : arrays) {
      for (const auto& region : array.object()->buffer->regions())
        changing_.push_back(region.var);
    }
  }
  for (std::size_t at = 0; at < segments_.size(); ++at)
    run_segment(at, recording, site);
  changing_.clear();
}

bool Arena::is_kept(const Arrays& arrays) const {
  return std::any_of(kept_results_.begin(), kept_results_.end(), [&](const auto& results) {
    return results->hold(arrays[results_begin_].object()->buffer);
  });
}

void Arena::make_own() {
  if (!own_.empty())
    return;
  Arrays made;
  for (const ValueId value : binding_.outside())
    made.push_back(binding_.new_outside(value, engine_));
  own_ = std::move(made);
}

Arrays Arena::in_own_inputs(const Arrays& arrays, SourceLocation site) {
  Arrays mixed;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    mixed.push_back(i < results_begin_ ? own_[i] : arrays[i]);
    if (i < results_begin_)
      copy_into(arrays[i], own_[i], site);
  }
  return mixed;
}

// For inputs at addresses that are always new; results that are kept have few.
void Arena::run_in_own(const Arrays& arrays, SourceLocation site) {
  make_own();
  const Arrays mixed = in_own_inputs(arrays, site);
  Recording* recording = find_recording(mixed);
  if (recording == nullptr && is_kept(arrays))
    recording = &new_recording();
  if (recording != nullptr)
    return run_with(mixed, recording, site);
  if (own_recording_ == nullptr) {
    addresses_.clear();
    own_recording_ = std::make_unique<Recording>(std::move(new_recording()));
    recordings_.pop_front();
  }
  run_with(own_, own_recording_.get(), site);
  for (std::size_t i = results_begin_; i < arrays.size(); ++i)
    copy_into(own_[i], arrays[i], site);
}

Arrays Arena::results(std::span<const NDArray> inputs, const Arrays& arrays, SourceLocation site) {
  const Attached attached(binding_, arrays);
  Arrays made;
  for (const ValueId output : graph_.outputs) {
    const Value& value = graph_.values[output];
    const bool is_passed_on = !rewritten_[value.root];
    if (binding_.follows(output) && graph_.values[value.root].source == Source::result) {
      made.push_back(binding_.array(output));
    } else if (value.source == Source::input && is_passed_on) {
      const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), output);
      made.push_back(inputs[static_cast<std::size_t>(at - graph_.inputs.begin())]);
    } else {
      const bool is_constant = value.source == Source::constant && is_passed_on;
      made.push_back(is_constant ? value.array : binding_.array(output).copy(site));
    }
  }
  return made;
}

void Arena::copy_rewritten_inputs(std::span<const NDArray> inputs, SourceLocation site) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const NDArray& own = binding_.array(graph_.inputs[i]); own.defined())
      copy_into(inputs[i], own, site);
  }
}

Arrays Arena::run(std::span<const NDArray> inputs, SourceLocation site) {
  struct Brought {
    Arrays& arrays;
    ~Brought() { arrays.clear(); }  // their room stays: runs take nothing from the heap
  } const brought{brought_};
  take_refused_branches_apart();
  bring(inputs, brought_, site);
  const Arrays& arrays = brought_;
  copy_rewritten_inputs(inputs, site);
  binding_.draw(engine_, site);
  binding_.raise_versions();
  if (poisons_)
    binding_.poison(std::span(arrays).subspan(results_begin_), site);
  credit_ = std::min<double>(credit_ + 1 / k_runs_a_recording, k_most_recordings);
  Recording* const recording = records_ && !is_large_ ? recording_for(arrays) : nullptr;
  if (records_ && recording == nullptr)
    run_in_own(arrays, site);
  else
    run_with(arrays, recording, site);
  return results(inputs, arrays, site);
}

}  // namespace sluice::graph
