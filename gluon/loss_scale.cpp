// Steps of scaled losses: what they are divided by and which of them count is known on the device alone.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon::optimizer {

namespace {

bool are_named(const std::vector<std::string>& names, std::span<const ParameterDict::Entry> parameters) {
  return std::equal(names.begin(), names.end(), parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
    return a == b.first;
  });
}

}  // namespace

void Optimizer::scale_losses(const NDArray& scale) {
  if (scale.defined()) {
    require(scale.ndim() == 0 && scale.dtype() == float32, [&] {
      return message(name(), ": losses are scaled by a float32 of shape (), not ", scale.dtype(), ' ', scale.shape());
    });
    require<UnsupportedError>(takes_guard(), [&] {
      return message(name(), ": cannot leave steps out; have its update read Step::guard and override takes_guard()");
    });
  }
  if (scale.defined() != loss_scale_.defined()) {
    for (auto& [names, numbers] : numbers_)
      numbers.forget();  // rates are corrected elsewhere from now on, and steps counted
  }
  loss_scale_ = scale;
}

NDArray Optimizer::corrections(const NDArray& /*steps*/, SourceLocation /*site*/) const {
  return {};
}

// Parameters are added to those that are counted there already, with what the host counted of them: all or none. Not
// with steps that were prepared before losses were scaled and are none since: these change nothing.
void Optimizer::make_counts(const Step& step) {
  for (const auto& [name, parameter] : step.parameters)
    counts_.try_emplace(name, 0);  // the host's
  if (!is_scaled())
    return;
  const CallSinkScope nobody(nullptr);
  const Device device = step.weights.front().device();
  if (taken_.counts.defined() && taken_.counts.device() == device && are_counted(step))
    return;
  Taken taken = taken_;
  std::vector<double> fresh;
  for (const auto& [name, parameter] : step.parameters) {
    if (std::find(taken.names.begin(), taken.names.end(), name) != taken.names.end())
      continue;
    taken.names.push_back(name);
    const auto is_none = [&, &name = name](const auto& one) {
      const auto& [names, numbers] = one;
      return numbers.is_counted && !numbers.is_prepared && !numbers.is_applied && !numbers.is_recorded &&
             std::find(names.begin(), names.end(), name) != names.end();
    };
    const auto none = std::count_if(numbers_.begin(), numbers_.end(), is_none);
    fresh.push_back(static_cast<double>(num_updates(name) - none));
  }
  if (taken.counts.defined() && taken.counts.device() != device)
    taken.counts = taken.counts.to(device, step.site);
  if (!fresh.empty()) {
    const NDArray added = array(fresh, {std::ssize(fresh)}, device, step.site);
    taken.counts = taken.counts.defined() ? concat({taken.counts, added}, 0, step.site) : added;
  }
  taken_ = std::move(taken);
  places_of(step);
  chosen_of(step);
}

bool Optimizer::are_counted(const Step& step) const {
  if (are_named(taken_.names, step.parameters))
    return true;
  const auto known = numbers_.find(step.parameters);
  if (known == numbers_.end() || !known->second.places.defined() || !known->second.chosen.defined())
    return false;
  return known->second.chosen.size() == std::ssize(taken_.names);
}

std::size_t Optimizer::place_of(const std::string& name) const {
  const std::vector<std::string>& names = taken_.names;
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Undefined where the step is of all that are counted, in their order. Others stay where they are.
NDArray Optimizer::places_of(const Step& step) {
  if (are_named(taken_.names, step.parameters))
    return {};
  NDArray& kept = numbers_for(step).places;
  if (kept.defined() && kept.device() == taken_.counts.device())
    return kept;
  std::vector<std::int64_t> places;
  for (const auto& [name, parameter] : step.parameters)
    places.push_back(static_cast<std::int64_t>(place_of(name)));
  const CallSinkScope nobody(nullptr);
  kept = array(places, {std::ssize(places)}, taken_.counts.device(), step.site);
  return kept;
}

// Of all that are counted those that the step is of: 1, the others 0. Undefined where these are all. Kept, so that
// traces of the step name one array.
NDArray Optimizer::chosen_of(const Step& step) {
  if (are_named(taken_.names, step.parameters))
    return {};
  NDArray& kept = numbers_for(step).chosen;
  if (kept.defined() && kept.size() == std::ssize(taken_.names) && kept.device() == taken_.counts.device())
    return kept;
  std::vector<double> chosen(taken_.names.size(), 0);
  for (const auto& [name, parameter] : step.parameters)
    chosen[place_of(name)] = 1;
  const CallSinkScope nobody(nullptr);
  kept = array(chosen, {std::ssize(chosen)}, taken_.counts.device(), step.site);
  return kept;
}

// What was written for the step, of one that nothing corrects, becomes that of the steps that were taken.
NDArray Optimizer::rescaled_numbers(const Step& step) {
  const SourceLocation site = step.site;
  const std::int64_t rates = step.in_memory.size() - 1;
  NDArray of_rates = step.in_memory.slice(0, 0, rates, 1, site);
  NDArray rescale = step.in_memory.slice(0, rates, rates + 1, 1, site);
  if (taken_.counts.defined() && counts_steps()) {
    const NDArray places = places_of(step);
    const NDArray counts = places.defined() ? take(taken_.counts, places, 0, IndexMode::raise, site) : taken_.counts;
    of_rates = multiply(of_rates, corrections(add(counts, 1, site), site), site);
  }
  if (loss_scale_.defined())
    rescale = divide(rescale, loss_scale_, site);
  return concat({of_rates, rescale}, 0, site);
}

// What is added to the counts: one each, unless the step is left out. Made before the update, as is all that takes
// memory: afterwards nothing may fail.
NDArray Optimizer::counted_by(const Step& step) {
  const SourceLocation site = step.site;
  const NDArray taken = step.guard.defined() ? step.guard.slice(0, 2, 3, 1, site)
                                             : ones({1}, {.dtype = float64, .device = taken_.counts.device()}, site);
  const NDArray chosen = chosen_of(step);
  // By no operator that asks for memory when it runs: its lack would fail the counts alone.
  return chosen.defined() ? multiply(chosen, taken, site) : taken;
}

}  // namespace sluice::gluon::optimizer
