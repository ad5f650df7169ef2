#include <algorithm>
#include <cstring>
#include <string>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/engine/region.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/trainer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/file.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/call_room.h>

namespace sluice::gluon {

Trainer::Trainer(ParameterDict parameters, std::unique_ptr<optimizer::Optimizer> optimizer)
    : optimizer_(std::move(optimizer)) {
  require(optimizer_ != nullptr, [] { return "Trainer: the optimizer is null"; });
  require(!parameters.empty(), [] { return "Trainer: there are no parameters"; });
  for (const auto& [name, parameter] : parameters) {
    const Parameter& candidate = parameter;
    const bool shared = std::any_of(
        parameters_.begin(), parameters_.end(), [&](const auto& held) { return held.second.same(candidate); });
    if (!shared)
      parameters_.emplace_back(name, parameter);
  }
}

optimizer::Optimizer& Trainer::optimizer() const {
  require(
      optimizer_ != nullptr, [] { return "the trainer was moved from and has no optimizer; use the one it went to"; });
  return *optimizer_;
}

void Trainer::guard_gradients(const optimizer::GuardSettings& settings) {
  require(!is_recorded_, [] {
    return "a step was recorded and would go on as it is; guard gradients before, or record anew with another Trainer";
  });
  optimizer().guard(settings);
}

// Errors and tasks name the user's line.
template <class Body>
void Trainer::located(const char* what, SourceLocation site, const Body& body) {
  if (site.line != called_.line || what != called_what_ || std::strcmp(site.file, called_.file) != 0) {
    const Origin& origin = Origin::of(what, site);
    called_what_ = what;
    called_ = origin.called();
    called_.origin = origin.number();
  }
  site = called_;
  const OriginScope scope(site);
  const amp::AutocastScope as_they_are(std::nullopt);
  try {
    body(site);
  } catch (Error& error) {
    error.locate("in " + describe(site));
    throw;
  }
}

namespace {

void check_batch_size(std::int64_t batch_size) {
  require(batch_size >= 1, [&] {
    return message(
        "batch_size is ", batch_size, "; give the number of samples whose losses backward added up, 1 or more");
  });
}

void require_value(const ParameterDict::Entry& entry, const char* or_else) {
  require(entry.second.is_initialized(), [&] {
    return message("there is no value yet for '", entry.first, "'; initialize() the network and run it once", or_else);
  });
}

bool are_named_alike(
    const std::vector<ParameterDict::Entry>& some, const std::vector<ParameterDict::Entry>& others) noexcept {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(), [](const auto& one, const auto& other) {
    return one.first == other.first;
  });
}

}  // namespace

// A step of gradients of which some may be unscaled. Then the optimizer has the scale again, by which others divide
// that were prepared.
template <class Step>
void Trainer::divided_once(std::span<const ParameterDict::Entry> parameters, SourceLocation site, const Step& step) {
  if (scaler_ == nullptr)
    return step();
  use_scale(*scaler_, parameters, true, site);
  try {
    step();
  } catch (...) {
    use_scale(*scaler_, parameters, false, site);
    throw;
  }
  use_scale(*scaler_, parameters, false, site);
}

void Trainer::step(std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site) {
  located("Trainer::step", site, [&](SourceLocation at) { update(batch_size, ignore_stale_grad, at); });
}

void Trainer::prepare_step(std::int64_t batch_size, SourceLocation site) {
  located("Trainer::prepare_step", site, [&](SourceLocation at) {
    optimizer();  // is there
    check_batch_size(batch_size);
    const double rescale = 1.0 / static_cast<double>(batch_size);
    if (are_prepared()) {  // as a rule: then no list is made
      if (scaler_ != nullptr)
        use_scale(*scaler_, prepared_, false, at);
      return optimizer().prepare(prepared_, rescale, at);
    }
    std::vector<ParameterDict::Entry> trained = trained_parameters();
    require(!is_recorded_ || are_named_alike(trained, prepared_), [&] {
      return message(
          "the step that was recorded is of ",
          prepared_.size(),
          " parameters, ",
          trained.size(),
          " are to be trained now, and it would go on with other parameters and old rates; set their grad_req as it "
          "was, or record anew with another Trainer, which load_states() continues");
    });
    if (scaler_ != nullptr)
      use_scale(*scaler_, trained, false, at);  // what was unscaled: the step computes its gradients itself
    optimizer().prepare(trained, rescale, at);
    prepared_ = std::move(trained);
  });
}

void Trainer::apply_step(SourceLocation site) {
  located("Trainer::apply_step", site, [&](SourceLocation at) {
    require(!prepared_.empty(), [] { return "no step was prepared: call prepare_step() before each run"; });
    sluice::detail::CallRoom room(scaler_ == nullptr ? 0 : 1);  // once it was applied nothing may fail
    divided_once(prepared_, at, [&] { optimizer().update_prepared(prepared_, at); });
    is_recorded_ = is_recorded_ || region_records() || sluice::detail::calls_are_taken();
    for (const auto& [name, parameter] : prepared_)
      parameter.mark_grad_used();
    room.open();
    follow_scale(at);
  });
}

// apply_step() of a trace: the plan is another one where other parameters are trained, and nothing is used yet.
void Trainer::trace_step(SourceLocation site) {
  located("TrainStep", site, [&](SourceLocation at) {
    optimizer().update_prepared(prepared_, at);
    follow_scale(at);
  });
}

// Takes back prepare_step(), for a run that did not begin.
void Trainer::cancel_step() {
  optimizer().cancel(prepared_);
}

std::vector<ParameterDict::Entry> Trainer::trained_parameters() const {
  std::vector<ParameterDict::Entry> trained;
  for (const ParameterDict::Entry& entry : parameters_) {
    if (entry.second.grad_req() == GradReq::null)
      continue;
    require_value(entry, ", or set_grad_req(GradReq::null) for what is not to be trained");
    trained.push_back(entry);
  }
  return trained;
}

// Are those that are to be trained the ones of the step that was prepared last?
bool Trainer::are_prepared() const {
  auto next = prepared_.begin();
  for (const ParameterDict::Entry& entry : parameters_) {
    if (entry.second.grad_req() == GradReq::null)
      continue;
    const bool is_next = entry.second.is_initialized() && next != prepared_.end() && next->first == entry.first &&
                         next->second.same(entry.second);
    if (!is_next)
      return false;
    ++next;
  }
  return next == prepared_.end();
}

std::vector<ParameterDict::Entry> Trainer::fresh_parameters(bool ignore_stale_grad) const {
  std::vector<ParameterDict::Entry> fresh;
  fresh.reserve(parameters_.size());
  for (const ParameterDict::Entry& entry : parameters_) {
    const auto& [name, parameter] = entry;
    if (parameter.grad_req() == GradReq::null)
      continue;
    if (parameter.is_initialized() && parameter.grad_is_fresh()) {
      fresh.push_back(entry);
      continue;
    }
    if (ignore_stale_grad)
      continue;
    require_value(entry, ", or let such parameters be by ignore_stale_grad");
    require(false, [&, &name = name] {
      return message(
          "no backward computed the gradient of '",
          name,
          "' since the last step; call backward() on a loss that depends on it (if its layer was replaced, make the "
          "trainer anew), or let such parameters be by ignore_stale_grad");
    });
  }
  return fresh;
}

void Trainer::update(std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site) {
  optimizer();  // is there
  check_batch_size(batch_size);
  const std::vector<ParameterDict::Entry> fresh = fresh_parameters(ignore_stale_grad);
  sluice::detail::CallRoom room(scaler_ == nullptr ? 0 : 1);  // once the step was made nothing may fail
  divided_once(fresh, site, [&] { optimizer().update(fresh, 1.0 / static_cast<double>(batch_size), site); });
  for (const auto& [name, parameter] : fresh)
    parameter.mark_grad_used();
  room.open();
  if (!fresh.empty())
    follow_scale(site);
}

void Trainer::save_states(const std::filesystem::path& path, SourceLocation site) const {
  detail::called("Trainer::save_states of " + path.string(), site, [&] { save(path, states(), {}); });
}

optimizer::Optimizer::States Trainer::states() const {
  optimizer::Optimizer::States all = optimizer().states();
  if (scaler_ != nullptr)
    all.merge(scaler_->states());
  return all;
}

void Trainer::check_state(const std::string& file, const std::string& entry, const NDArray& state) const {
  const std::string owner = optimizer::Optimizer::owner_of(entry);
  if (owner.empty())
    return;
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& held) { return held.first == owner; });
  require(found != parameters_.end(), [&] {
    return message(
        file,
        ": state '",
        entry,
        "' belongs to none of the trainer's parameters; make the trainer of the network that the file was written for");
  });
  if (entry.ends_with(".num_updates"))
    return;
  const Shape shape = optimizer().state_shape(entry.substr(owner.size() + 1), found->second.shape());
  bool fits = shape.ndim() == state.ndim();
  for (int axis = 0; fits && axis < shape.ndim(); ++axis)
    fits = shape[axis] == 0 || shape[axis] == state.shape()[axis];
  require<ShapeError>(fits, [&] {
    return message(
        file,
        ": state '",
        entry,
        "' has shape ",
        state.shape(),
        ", the parameter has ",
        found->second.shape(),
        "; make the network as it was when the file was written");
  });
  const DType type = optimizer::Optimizer::state_type(found->second.dtype());
  require<DTypeError>(state.dtype() == type, [&] {
    return message(file, ": state '", entry, "' is ", state.dtype(), ", this parameter's is ", type);
  });
}

void Trainer::load_states(const std::filesystem::path& path, SourceLocation site) {
  detail::called("Trainer::load_states of " + path.string(), site, [&] {
    load_states(load(path, cpu(), nullptr, {}), path.string(), site);
  });
}

void Trainer::load_states(const optimizer::Optimizer::States& states, const std::string& origin, SourceLocation site) {
  detail::called("Trainer::load_states of " + origin, site, [&] {
    for (const auto& [entry, state] : states)
      check_state(origin, entry, state);
    const auto load = [&] { optimizer().load_states(states); };
    if (scaler_ != nullptr && states.contains("loss_scale"))
      scaler_->load_states(states, load);
    else
      load();
  });
}

}  // namespace sluice::gluon
