#include <algorithm>
#include <optional>
#include <utility>

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

/// Steps use the arrays as long as it lives.
class Attached {
 public:
  Attached(Binding& binding, const Arrays& arrays) : binding_(binding) { binding.attach(arrays); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() { binding_.detach(); }

 private:
  Binding& binding_;
};

std::vector<const void*> addresses_of(const Arrays& arrays) {
  std::vector<const void*> addresses;
  addresses.reserve(arrays.size());
  for (const NDArray& array : arrays)
    addresses.push_back(array.object()->data());
  return addresses;
}

}  // namespace

Arena::Arena(const Graph& graph, bool share_memory, Engine& engine)
    : graph_(graph), engine_(engine), binding_(graph, share_memory, engine) {
  for (const ValueId value : binding_.outside()) {
    if (graph.values[value].source != Source::input)
      continue;
    ++results_begin_;
    const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), value);
    input_numbers_.push_back(static_cast<std::size_t>(at - graph.inputs.begin()));
  }
  find_segments();
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
  }
}

Arrays Arena::arrays_from_outside(std::span<const NDArray> inputs, SourceLocation site) const {
  Arrays arrays;
  for (std::size_t i = 0; i < binding_.outside().size(); ++i) {
    const ValueId value = binding_.outside()[i];
    const bool is_input = i < results_begin_;
    if (is_input && binding_.takes(value, inputs[input_numbers_[i]])) {
      arrays.push_back(inputs[input_numbers_[i]]);
      continue;
    }
    arrays.push_back(binding_.new_outside(value, engine_));
    if (is_input)
      copy_into(inputs[input_numbers_[i]], arrays.back(), site);
  }
  return arrays;
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

Arena::Recording& Arena::new_recording(std::vector<const void*> addresses) {
  if (recordings_.size() >= k_most_recordings)
    recordings_.pop_back();
  Recording& made = recordings_.emplace_front();
  made.addresses = std::move(addresses);
  made.key = ++keys_;
  for (std::size_t i = 0; i < segments_.size(); ++i)
    made.kept.push_back(std::make_unique<sluice::detail::BuffersKept>());
  return made;
}

// Null: none, and not to be made.
Arena::Recording* Arena::recording_for(const Arrays& arrays) {
  std::vector<const void*> addresses = addresses_of(arrays);
  const auto known = std::find_if(
      recordings_.begin(), recordings_.end(), [&](const Recording& one) { return one.addresses == addresses; });
  if (known != recordings_.end()) {
    std::rotate(recordings_.begin(), known, known + 1);
    return &recordings_.front();
  }
  return is_worth_recording(addresses) ? &new_recording(std::move(addresses)) : nullptr;
}

void Arena::run_segment(std::size_t at, const std::vector<Var>& changing, Recording* recording, SourceLocation site) {
  const Segment& segment = segments_[at];
  const auto run = [&] {
    for (std::size_t step = segment.begin; step < segment.end; ++step)
      Binding::run(binding_.steps()[step]);
  };
  if (segment.region == nullptr)
    return run();
  segment.region->run(
      recording->key,
      changing,
      [&] {
        recording->kept[at]->clear();
        const sluice::detail::BuffersKept::Scope keep(*recording->kept[at]);
        run();
      },
      site);
}

void Arena::run_with(const Arrays& arrays, Recording* recording, SourceLocation site) {
  const Attached attached(binding_, arrays);
  std::vector<Var> changing;
  if (recording != nullptr) {
    for (const NDArray& array : arrays)
      changing.push_back(array.object()->buffer->var());
  }
  for (std::size_t at = 0; at < segments_.size(); ++at)
    run_segment(at, changing, recording, site);
}

void Arena::make_own() {
  if (own_recording_ != nullptr)
    return;
  Arrays made;
  for (const ValueId value : binding_.outside())
    made.push_back(binding_.new_outside(value, engine_));
  Recording& recording = new_recording({});
  own_recording_ = std::make_unique<Recording>(std::move(recording));
  recordings_.pop_front();
  own_ = std::move(made);
}

void Arena::run_in_own(const Arrays& arrays, SourceLocation site) {
  make_own();
  for (std::size_t i = 0; i < results_begin_; ++i)
    copy_into(arrays[i], own_[i], site);
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
  const Arrays arrays = arrays_from_outside(inputs, site);
  copy_rewritten_inputs(inputs, site);
  binding_.draw(engine_, site);
  credit_ = std::min<double>(credit_ + 1 / k_runs_a_recording, k_most_recordings);
  Recording* const recording = records_ ? recording_for(arrays) : nullptr;
  if (records_ && recording == nullptr)
    run_in_own(arrays, site);
  else
    run_with(arrays, recording, site);
  binding_.raise_versions();
  return results(inputs, arrays, site);
}

}  // namespace sluice::graph
