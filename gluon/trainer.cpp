#include <algorithm>
#include <cstring>
#include <string>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/trainer.h>
#include <sluice/ndarray/file.h>

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

// Errors and tasks name the user's line.
template <class Body>
void Trainer::located(const char* what, SourceLocation site, const Body& body) {
  if (site.line != called_.line || std::strcmp(site.file, called_.file) != 0) {
    const Origin& origin = Origin::of(what, site);
    called_ = origin.called();
    called_.origin = origin.number();
  }
  site = called_;
  const OriginScope scope(site);
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

}  // namespace

void Trainer::step(std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site) {
  located("Trainer::step", site, [&](SourceLocation at) { update(batch_size, ignore_stale_grad, at); });
}

void Trainer::prepare_step(std::int64_t batch_size, SourceLocation site) {
  located("Trainer::prepare_step", site, [&](SourceLocation at) {
    check_batch_size(batch_size);
    prepared_.clear();
    for (const ParameterDict::Entry& entry : parameters_) {
      if (entry.second.grad_req() != GradReq::null && entry.second.is_initialized())
        prepared_.push_back(entry);
    }
    optimizer_->prepare(prepared_, 1.0 / static_cast<double>(batch_size), at);
  });
}

void Trainer::apply_step(SourceLocation site) {
  located("Trainer::apply_step", site, [&](SourceLocation at) {
    require(!prepared_.empty(), [] { return "no step was prepared: call prepare_step() before each run"; });
    optimizer_->update_prepared(prepared_, at);
    for (const auto& [name, parameter] : prepared_)
      parameter.mark_grad_used();
  });
}

void Trainer::update(std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site) {
  check_batch_size(batch_size);
  std::vector<ParameterDict::Entry> fresh;
  fresh.reserve(parameters_.size());
  for (const ParameterDict::Entry& entry : parameters_) {
    const auto& [name, parameter] = entry;
    if (parameter.grad_req() == GradReq::null)
      continue;
    const bool initialized = parameter.is_initialized();
    if (initialized && parameter.grad_is_fresh()) {
      fresh.push_back(entry);
      continue;
    }
    require(ignore_stale_grad, [&, &name = name] {
      return initialized ? message(
                               "no backward computed the gradient of '",
                               name,
                               "' since the last step; call backward() on a loss that depends on it, or let such "
                               "parameters be by ignore_stale_grad")
                         : message(
                               "there is no value yet for '",
                               name,
                               "'; initialize() the network and run it once, or let such parameters be by "
                               "ignore_stale_grad");
    });
  }
  optimizer_->update(fresh, 1.0 / static_cast<double>(batch_size), site);
  for (const auto& [name, parameter] : fresh)
    parameter.mark_grad_used();
}

void Trainer::save_states(const std::filesystem::path& path, SourceLocation site) const {
  detail::called("Trainer::save_states of " + path.string(), site, [&] { save(path, optimizer_->states()); });
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
  const Shape& shape = found->second.shape();
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
        shape,
        "; make the network as it was when the file was written");
  });
  const DType type = optimizer::Optimizer::state_type(found->second.dtype());
  require<DTypeError>(state.dtype() == type, [&] {
    return message(file, ": state '", entry, "' is ", state.dtype(), ", this parameter's is ", type);
  });
}

void Trainer::load_states(const std::filesystem::path& path, SourceLocation site) {
  detail::called("Trainer::load_states of " + path.string(), site, [&] {
    const optimizer::Optimizer::States states = load(path);
    for (const auto& [entry, state] : states)
      check_state(path.string(), entry, state);
    optimizer_->load_states(states);
  });
}

}  // namespace sluice::gluon
