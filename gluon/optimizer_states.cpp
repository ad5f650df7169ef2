// What an optimizer remembers, as arrays by name.
#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon::optimizer {

namespace {

constexpr const char* k_count = "num_updates";
constexpr std::int64_t k_most_steps = std::int64_t{1} << 62;  // and those to come can be counted
constexpr const char* k_optimizer = "optimizer";

NDArray one_number(std::int64_t value) {
  return array<std::int64_t>({value});
}

// Steps write into the arrays that an optimizer holds: they are nobody else's.
Optimizer::States copies_of(const Optimizer::States& states) {
  const autograd::PauseScope pause;
  Optimizer::States copies;
  for (const auto& [entry, value] : states)
    copies.emplace(entry, value.copy());
  return copies;
}

std::int64_t read_count(const std::string& entry, const NDArray& value) {
  require(value.size() == 1 && value.dtype() == int64, [&] {
    return message(
        "optimizer states: '", entry, "' is ", value.dtype(), " of shape ", value.shape(), ", not one int64");
  });
  const auto count = value.item<std::int64_t>();
  require(count >= 0 && count <= k_most_steps, [&] { return message("optimizer states: '", entry, "' is ", count); });
  return count;
}

// "0.weight.mean" is slot "mean" of parameter "0.weight".
std::string slot_of(const std::string& entry) {
  return entry.substr(entry.rfind('.') + 1);
}

const NDArray& entry_of(const Optimizer::States& states, const std::string& entry) {
  const auto found = states.find(entry);
  require(found != states.end(), [&] { return message("optimizer states lack the entry '", entry, "'"); });
  return found->second;
}

std::string saved_name(const Optimizer::States& states) {
  const NDArray& value = entry_of(states, k_optimizer);
  require(value.dtype() == uint8, [&] {
    return message("optimizer states: '", k_optimizer, "' is ", value.dtype(), ", not the bytes of a name");
  });
  const auto bytes = value.to_vector<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

using Counts = std::map<std::string, std::int64_t>;

// Of parameters that were updated.
void check_complete(const Optimizer::States& arrays, const Counts& counts, const std::vector<std::string>& slots) {
  for (const auto& [parameter, count] : counts) {
    for (const std::string& slot : slots) {
      require(count == 0 || arrays.contains(parameter + "." + slot), [&, &parameter = parameter, &count = count] {
        return message(
            "optimizer states lack the entry '",
            parameter,
            ".",
            slot,
            "', though '",
            parameter,
            "' was updated ",
            count,
            " times; the file is incomplete");
      });
    }
  }
}

}  // namespace

std::vector<NDArray> Optimizer::step_arrays(std::span<const ParameterDict::Entry> parameters) const {
  std::vector<NDArray> arrays;
  if (const auto numbers = numbers_.find(parameters); numbers != numbers_.end())
    arrays.insert(arrays.end(), {numbers->second.array, numbers->second.places, numbers->second.chosen});
  arrays.insert(arrays.end(), {guards() ? guard_ : NDArray(), loss_scale_, taken_.counts});
  std::erase_if(arrays, [](const NDArray& array) { return !array.defined(); });
  const std::vector<NDArray> states = step_states(parameters);
  arrays.insert(arrays.end(), states.begin(), states.end());
  return arrays;
}

void Optimizer::add_step_arrays(Entries parameters, std::vector<const void*>& to) const {
  const auto found = numbers_.find(parameters);
  if (found == numbers_.end() || found->second.states_made != states_made_) {
    for (const NDArray& array : step_arrays(parameters))
      to.push_back(array.object());
    return;
  }
  const Numbers& numbers = found->second;
  const auto add = [&](const NDArray& array) {
    if (array.defined())
      to.push_back(array.object());
  };
  add(numbers.array);
  add(numbers.places);
  add(numbers.chosen);
  if (guards())
    add(guard_);
  add(loss_scale_);
  add(taken_.counts);
  to.insert(to.end(), numbers.states.begin(), numbers.states.end());
}

std::vector<NDArray> Optimizer::step_states(Entries parameters) const {
  std::vector<NDArray> arrays;
  std::vector<std::string> all = slots();
  all.emplace_back("master");
  for (const auto& [name, parameter] : parameters) {
    for (const std::string& slot : all) {
      if (const auto state = states_.find(name + "." + slot); state != states_.end())
        arrays.push_back(state->second);
    }
  }
  return arrays;
}

bool Optimizer::are_states_there(const Step& step, const Numbers& numbers) const {
  const auto is_like = [](const NDArray& weight, const ArraySpec& spec) {
    return weight.shape() == spec.shape && weight.dtype() == spec.dtype && weight.device() == spec.device;
  };
  return numbers.states_made == states_made_ &&
         std::equal(step.weights.begin(), step.weights.end(), numbers.weights.begin(), numbers.weights.end(), is_like);
}

// Made here: a recorded step would make it again each time. Looked for once, as long as all is as it was.
void Optimizer::make_states(const Step& step) {
  Numbers& numbers = numbers_for(step);
  if (are_states_there(step, numbers))
    return;
  for (const std::string& slot : needed_slots(true))
    state(step, slot);
  if (keeps_masters())
    masters(step);
  numbers.weights.clear();
  for (const NDArray& weight : step.weights)
    numbers.weights.push_back({weight.shape(), weight.dtype(), weight.device()});
  numbers.states.clear();
  for (const NDArray& array : step_states(step.parameters))
    numbers.states.push_back(array.object());
  numbers.states_made = states_made_;
}

NDArray& Optimizer::state_of(const Step& step, std::size_t i, const std::string& slot) {
  const NDArray& weight = step.weights[i];
  const std::string name = step.parameters[i].first + "." + slot;
  const auto found = states_.find(name);
  const Shape shape = state_shape(slot, weight.shape());
  NDArray held = found == states_.end() ? NDArray() : found->second;
  const auto* const before = held.object();
  const CallSinkScope nobody(nullptr);  // memory that stays: a recorded step would make it again each time
  if (!held.defined()) {
    held = zeros(shape, {.dtype = state_type(weight.dtype()), .device = weight.device()}, step.site);
    if (begins_as_weight(slot))
      copy_into(weight, held, step.site);
  } else if (held.device() != weight.device()) {
    held = held.to(weight.device());
  }
  require<ShapeError>(held.shape() == shape, [&] {
    const std::string has = message("optimizer state '", name, "' has shape ", held.shape(), ", the parameter has ");
    return shape == weight.shape() ? message(has, shape) : message(has, weight.shape(), ", for which it has ", shape);
  });
  NDArray& state = states_[name];
  state = std::move(held);  // once there was memory for it
  states_made_ += state.object() == before ? 0 : 1;
  return state;
}

std::vector<NDArray> Optimizer::state(const Step& step, const std::string& slot) {
  std::vector<NDArray> arrays;
  arrays.reserve(step.parameters.size());
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    arrays.push_back(state_of(step, i, slot));
  return arrays;
}

std::vector<NDArray> Optimizer::masters(const Step& step) {
  std::vector<NDArray> arrays;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    if (sluice::detail::is_half(step.weights[i].dtype()))
      arrays.push_back(state_of(step, i, "master"));
  }
  return arrays;
}

std::string Optimizer::owner_of(const std::string& entry) {
  const std::size_t dot = entry.rfind('.');
  return dot == std::string::npos ? "" : entry.substr(0, dot);
}

Optimizer::States Optimizer::states() const {
  States all = copies_of(states_);
  const std::string called = name();
  all[k_optimizer] = array(std::vector<std::uint8_t>(called.begin(), called.end()), {std::ssize(called)});
  all[k_count] = one_number(num_updates_);
  for (const auto& [parameter, count] : counts_)
    all[parameter + "." + k_count] = one_number(count);
  const autograd::PauseScope pause;
  for (std::size_t i = 0; i < taken_.names.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    all[taken_.names[i] + "." + k_count] = taken_.counts.slice(0, at, at + 1).astype(int64).to(cpu());
  }
  return all;
}

void Optimizer::load_states(const States& states) {
  const std::int64_t number = read_count(k_count, entry_of(states, k_count));
  const std::string saved = saved_name(states);
  require(saved == name(), [&] {
    return message(
        "the states are those of ", saved, ", this optimizer is ", name(), "; make the trainer with ", saved);
  });
  std::vector<std::string> mine = slots();
  mine.emplace_back("master");
  States arrays;
  Counts counts;
  for (const auto& [entry, value] : copies_of(states)) {
    const std::string owner = owner_of(entry), slot = slot_of(entry);
    if (owner.empty())
      continue;
    if (slot == k_count) {
      counts[owner] = read_count(entry, value);
      continue;
    }
    require(std::find(mine.begin(), mine.end(), slot) != mine.end(), [&, &entry = entry] {
      return message("optimizer states: '", entry, "' is no state of ", name());
    });
    entry_of(states, owner + "." + k_count);
    arrays.emplace(entry, value);
  }
  check_complete(arrays, counts, needed_slots(!arrays.empty()));
  if (schedule_ != nullptr)
    learning_rate_ = checked_rate(schedule_(std::max<std::int64_t>(number, 1)));
  states_ = std::move(arrays);
  ++states_made_;
  counts_ = std::move(counts);
  num_updates_ = number;
  taken_ = {};
  for (auto& [names, numbers] : numbers_) {
    numbers.places = numbers.chosen = {};
    numbers.is_counted = false;  // among others it was
    numbers.forget();
  }
}

}  // namespace sluice::gluon::optimizer
