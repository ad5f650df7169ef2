#include <algorithm>
#include <string>

#include <sluice/engine/error.h>
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

void Trainer::step(std::int64_t batch_size, bool ignore_stale_grad) {
  require(batch_size >= 1, [&] { return message("Trainer::step: batch_size is ", batch_size); });
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
      return message(
          "Trainer::step: ",
          initialized ? "no backward computed the gradient of '" : "there is no value yet for '",
          name,
          initialized ? "' since the last step" : "'",
          " (ignore_stale_grad leaves such parameters as they are)");
    });
  }
  optimizer_->update(fresh, 1.0 / static_cast<double>(batch_size));
  for (const auto& [name, parameter] : fresh)
    parameter.mark_grad_used();
}

void Trainer::save_states(const std::filesystem::path& path) const {
  save(path, optimizer_->states());
}

void Trainer::load_states(const std::filesystem::path& path) {
  const optimizer::Optimizer::States states = load(path);
  for (const auto& [name, state] : states) {
    if (name == "num_updates")
      continue;
    const std::string owner = name.substr(0, name.rfind('.'));
    const auto found =
        std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& held) { return held.first == owner; });
    require(found != parameters_.end(), [&, &name = name] {
      return message(path.string(), ": state '", name, "' belongs to none of the trainer's parameters");
    });
    const Shape& shape = found->second.shape();
    bool fits = shape.ndim() == state.ndim();
    for (int axis = 0; fits && axis < shape.ndim(); ++axis)
      fits = shape[axis] == 0 || shape[axis] == state.shape()[axis];
    require<ShapeError>(fits, [&, &name = name, &state = state] {
      return message(path.string(), ": state '", name, "' has shape ", state.shape(), ", the parameter has ", shape);
    });
  }
  optimizer_->load_states(states);
}

}  // namespace sluice::gluon
