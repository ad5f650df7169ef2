#include <algorithm>
#include <cmath>
#include <iterator>

#include <sluice/engine/error.h>
#include <sluice/engine/region.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/call_room.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/update/corrections.h>
#include <sluice/operator/update/guard.h>
#include <sluice/operator/update/numbers.h>

namespace sluice::gluon::optimizer {

namespace {

const std::string& text_of(const std::string& name) {
  return name;
}
const std::string& text_of(const ParameterDict::Entry& entry) {
  return entry.first;
}
constexpr auto comes_before = [](const auto& x, const auto& y) { return text_of(x) < text_of(y); };

// That of what a step makes, whichever the thread's is.
Engine& engine_of(std::span<const ParameterDict::Entry> parameters) {
  return parameters[0].second.data().engine();
}

}  // namespace

// Sets of parameters are told apart by it.
std::vector<std::string> Optimizer::names_of(std::span<const ParameterDict::Entry> parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters)
    names.push_back(name);
  return names;
}

bool Optimizer::NamesBefore::operator()(const std::vector<std::string>& a, Entries b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), comes_before);
}

bool Optimizer::NamesBefore::operator()(Entries a, const std::vector<std::string>& b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), comes_before);
}

double Optimizer::checked_rate(double learning_rate) {
  require(std::isfinite(learning_rate) && learning_rate >= 0, [&] {
    return message("learning_rate is ", learning_rate, ", it must be finite and at least 0");
  });
  return learning_rate;
}

Optimizer::Optimizer(double learning_rate) : learning_rate_(checked_rate(learning_rate)) {}

void Optimizer::set_learning_rate(double learning_rate) {
  require(schedule_ == nullptr, [&] {
    return message("learning_rate ", learning_rate, ": a schedule says it; end that first, by set_schedule({})");
  });
  learning_rate_ = checked_rate(learning_rate);
}

void Optimizer::set_schedule(lr_scheduler::Schedule schedule) {
  if (schedule != nullptr)
    learning_rate_ = checked_rate(schedule(num_updates_ + 1));
  schedule_ = std::move(schedule);
}

void Optimizer::follow_schedule() {
  if (schedule_ != nullptr)
    learning_rate_ = checked_rate(schedule_(num_updates_ + 1));
}

Optimizer::LentStep::~LentStep() {
  step.weights.clear();
  step.grads.clear();
  step.numbers.clear();
  step.learning_rate_multipliers.clear();
  step.weight_decay_multipliers.clear();
  step.parameters = {};
  step.in_memory = step.guard = {};
  of.room_ = std::move(step);
}

void Optimizer::fill(Step& step, Entries parameters, double rescale_grad, SourceLocation site) const {
  step.rescale_grad = rescale_grad;
  step.parameters = parameters;
  step.site = site;
  bool factors = false;
  const Device device = parameters[0].second.data().device();
  for (const auto& [name, parameter] : parameters) {
    step.weights.push_back(parameter.data());
    step.grads.push_back(parameter.grad());
    step.numbers.push_back(num_updates(name) + 1);
    factors |= parameter.lr_mult() != 1 || parameter.wd_mult() != 1;
    require<DeviceError>(parameter.data().device() == device, [&, &name = name, &parameter = parameter] {
      return message(
          "parameter '",
          parameters[0].first,
          "' is on ",
          device,
          ", '",
          name,
          "' on ",
          parameter.data().device(),
          "; one optimizer updates parameters of one device: move the network with to(device)");
    });
  }
  if (factors) {
    for (const auto& [name, parameter] : parameters) {
      step.learning_rate_multipliers.push_back(parameter.lr_mult());
      step.weight_decay_multipliers.push_back(parameter.wd_mult());
    }
  }
}

// For which there is room since make_counts(): once a step was made nothing may fail.
void Optimizer::count(const Step& step) {
  for (const auto& [name, parameter] : step.parameters)
    ++counts_[name];
  ++num_updates_;
}

void Optimizer::refuse_in_region() const {
  require(!region_records(), [&] {
    return name() +
           ": a region would repeat the rates of this step; prepare() each step before the region runs, and "
           "record update_prepared()";
  });
}

void Optimizer::refuse_beside_prepared(std::span<const ParameterDict::Entry> parameters) const {
  const auto prepared = numbers_.find(parameters);
  require(prepared == numbers_.end() || !prepared->second.is_prepared || prepared->second.is_applied, [&] {
    return message(
        name(),
        ": a step of these ",
        parameters.size(),
        " parameters, '",
        parameters[0].first,
        "' the first, was prepared and not applied, and what a sink takes would write over its rates; have the sink "
        "take update_prepared(), or step outside of it");
  });
}

void Optimizer::update(std::span<const ParameterDict::Entry> parameters, double rescale_grad, SourceLocation site) {
  if (parameters.empty())
    return;
  refuse_in_region();
  const bool is_recorded = sluice::detail::calls_are_taken();
  if (is_recorded)
    refuse_beside_prepared(parameters);
  follow_schedule();
  const EngineScope theirs(engine_of(parameters));
  autograd::PauseScope pause;
  LentStep lent(*this);
  Step& step = lent.step;
  fill(step, parameters, rescale_grad, site);
  make_counts(step);
  if (is_recorded || is_scaled())
    write_numbers(step, is_recorded);
  if (is_recorded)
    numbers_for(step).is_recorded = true;
  make_guard(step);
  apply_guarded(step);
  count(step);
}

void Optimizer::prepare(std::span<const ParameterDict::Entry> parameters, double rescale_grad, SourceLocation site) {
  if (parameters.empty())
    return;
  refuse_in_region();
  follow_schedule();
  const EngineScope theirs(engine_of(parameters));
  const autograd::PauseScope pause;
  const CallSinkScope nobody(nullptr);
  LentStep lent(*this);
  Step& step = lent.step;
  fill(step, parameters, rescale_grad, site);
  make_states(step);
  make_counts(step);
  make_guard(step);
  write_numbers(step, true);
  Numbers& numbers = numbers_for(step);
  numbers.is_counted = numbers.is_prepared = true;
  numbers.is_applied = false;
  count(step);
}

void Optimizer::update_prepared(std::span<const ParameterDict::Entry> parameters, SourceLocation site) {
  if (parameters.empty())
    return;
  const EngineScope theirs(engine_of(parameters));
  const autograd::PauseScope pause;
  LentStep lent(*this);
  Step& step = lent.step;
  fill(step, parameters, 1, site);
  const auto prepared = numbers_.find(parameters);
  require(prepared != numbers_.end() && prepared->second.is_prepared, [&] {
    return message(
        name(),
        ": a step of these ",
        parameters.size(),
        " parameters, '",
        parameters[0].first,
        "' the first, was not prepared, or before losses were scaled or states loaded: call prepare() for them before, "
        "outside what is recorded");
  });
  Numbers& numbers = prepared->second;
  step.in_memory = numbers.array;
  make_guard(step);  // gradients may be guarded since it was prepared
  numbers.is_recorded |= region_records() || sluice::detail::calls_are_taken();
  apply_guarded(step);
  numbers.is_applied = true;
}

void Optimizer::cancel(std::span<const ParameterDict::Entry> parameters) {
  const auto numbers = numbers_.find(parameters);
  if (parameters.empty() || numbers == numbers_.end() || !numbers->second.is_counted)
    return;
  numbers->second.is_counted = false;
  for (const auto& [name, parameter] : parameters)
    --counts_[name];
  --num_updates_;
  numbers->second.forget();  // perhaps they did not arrive
}

std::int64_t Optimizer::num_updates(const std::string& parameter) const noexcept {
  const auto found = counts_.find(parameter);
  return found == counts_.end() ? 0 : found->second;
}

void Optimizer::guard(const GuardSettings& settings) {
  require(!std::isnan(settings.max_norm), [&] {
    return message(name(), ": a norm of gradients of ", settings.max_norm, " at most; a negative one is for none");
  });
  const bool guards = settings.max_norm >= 0 || settings.skip_non_finite;
  require<UnsupportedError>(!guards || takes_guard(), [&] {
    return message(
        name(), ": takes no guard of gradients; have its update read Step::guard and override takes_guard()");
  });
  guards_ = guards;
  guard_settings_ = settings;
  guard_ = {};  // steps that were recorded read what stands in theirs
}

// Memory for it, outside what a sink takes. Where a region records, its fill is recorded too: each run begins with it.
void Optimizer::make_guard(const Step& step) {
  const Device device = step.weights.front().device();
  if (!guards() || (guard_.defined() && guard_.device() == device))
    return;
  const CallSinkScope nobody(nullptr);
  guard_ = ones({3}, {.dtype = float64, .device = device}, step.site);
}

void Optimizer::apply_guarded(Step& step) {
  if (is_scaled())
    step.in_memory = rescaled_numbers(step);
  if (guards()) {
    step.guard = gradient_guard(
        step.grads,
        {.max_norm = guard_settings_.max_norm,
         .skip_non_finite = guard_settings_.skip_non_finite || loss_scale_.defined(),
         .rescale_grad = step.rescale_grad,
         .numbers = step.in_memory},
        guard_,
        step.site);
  }
  const NDArray counted = taken_.counts.defined() ? counted_by(step) : NDArray();
  sluice::detail::CallRoom room(counted.defined() ? 1 : 0);
  apply(step);
  room.open();
  if (counted.defined())
    taken_.counts += Operand(counted, step.site);  // in place: where the step fails they are as they were
}

// Steps of ever other parameters, as where some have no gradient, must not make it grow without end.
Optimizer::Numbers& Optimizer::numbers_for(const Step& step) {
  constexpr std::ptrdiff_t k_most = 32;
  auto found = numbers_.find(step.parameters);
  const bool is_new = found == numbers_.end();
  if (is_new)
    found = numbers_.try_emplace(names_of(step.parameters)).first;
  found->second.used = ++uses_;
  const auto may_go = [](const auto& one) { return !one.second.is_kept(); };
  if (is_new && std::count_if(numbers_.begin(), numbers_.end(), may_go) > k_most) {
    auto oldest = found;
    for (auto one = numbers_.begin(); one != numbers_.end(); ++one) {
      if (may_go(*one) && one->second.used < oldest->second.used)
        oldest = one;
    }
    numbers_.erase(oldest);
  }
  return found->second;
}

void Optimizer::write_numbers(Step& step, bool for_later) {
  const CallSinkScope nobody(nullptr);
  if (taken_.counts.defined() && counts_steps())
    step.numbers.assign(step.numbers.size(), k_late_step);
  const std::vector<double> values = numbers_of(step);
  const Device device = step.weights.front().device();
  Numbers& kept = numbers_for(step);
  if (!for_later && kept.is_kept()) {
    step.in_memory = array(values, {std::ssize(values)}, device, step.site);
    return;
  }
  if (!kept.array.defined() || kept.array.size() != std::ssize(values) || kept.array.device() != device)
    kept.array =
        array(values, {std::ssize(values)}, device, step.site);  // what was recorded there holds old weights too
  else if (kept.values != values)
    sluice::detail::write_words(std::span<const double>(values), kept.array, step.site);
  kept.values = values;
  step.in_memory = kept.array;
}

std::vector<double> Optimizer::numbers_of(const Step& /*step*/) const {
  throw UnsupportedError(
      name() +
      ": its steps cannot be recorded, since it does not say what changes from step to step; override numbers_of()");
}

}  // namespace sluice::gluon::optimizer
