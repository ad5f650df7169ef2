// What an optimizer remembers, as arrays by name.
#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>

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
