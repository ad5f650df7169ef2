// What a trainer does about scaled losses.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/trainer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/deposits.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/call_room.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon {

void Trainer::set_scaler(const amp::GradScaler& scaler) {
  require(scaler_ == nullptr && !is_recorded_, [&] {
    return is_recorded_ ? "a step was recorded and would go on as it is; give the trainer its scaler before"
                        : "the trainer has a scaler already";
  });
  std::shared_ptr<const amp::GradScaler> given = scaler.given_to_trainer();
  if (scaler.is_enabled())
    optimizer().scale_losses(scaler.loss_scale());
  scaler_ = std::move(given);
}

void Trainer::check_scaler(const amp::GradScaler& scaler) const {
  require(scaler.is_that_of(scaler_.get()), [&] {
    return scaler_ != nullptr ? "the trainer has a scaler of its own, by amp::init_trainer(); use that one"
                              : "the scaler is that of another trainer, by amp::init_trainer(); use one of neither";
  });
}

// Has unscale() divided the gradient, and no backward computed another since? What others write there, who clips say,
// is unscaled as well.
bool Trainer::is_unscaled(const ParameterDict::Entry& entry) {
  const auto& [name, parameter] = entry;
  const std::optional<std::uint64_t>& deposit = parameter.unscaled_deposit();
  if (!deposit)
    return false;
  const bool is_same = *deposit == sluice::detail::last_deposit(parameter.data());
  require(is_same || parameter.grad_req() != GradReq::add, [&, &name = name] {
    return message(
        "backward added to the gradient of '",
        name,
        "' after it was unscaled, and no step can divide the sum; unscale once all was added, or zero_grad() before");
  });
  return is_same;
}

void Trainer::divide_scaled(
    const amp::GradScaler& scaler, std::span<const ParameterDict::Entry> parameters, SourceLocation site) {
  std::vector<ParameterDict::Entry> scaled;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(scaled), std::not_fn(is_unscaled));
  for (const auto& [name, parameter] : scaled) {
    require<DTypeError>(parameter.dtype() != float16, [&, &name = name] {
      return message(
          "the gradient of '",
          name,
          "' is float16, where it would be 0 without its scale; leave the division to the step, or have float32 "
          "parameters and amp::autocast");
    });
  }
  const autograd::PauseScope unrecorded;
  const amp::AutocastScope as_they_are(std::nullopt);
  for (const auto& [name, parameter] : scaled) {
    const NDArray grad = parameter.grad();
    copy_into(divide(grad, scaler.scale_on(grad.device()), site), grad, site);
    parameter.unscaled_deposit() = sluice::detail::last_deposit(parameter.data());
  }
}

// Where the parameters are. `of_gradients`: they are there. A step divides all by one number: where some gradients are
// divided already, the others are now.
void Trainer::use_scale(
    const amp::GradScaler& scaler,
    std::span<const ParameterDict::Entry> parameters,
    bool of_gradients,
    SourceLocation site) {
  if (!scaler.is_enabled() || parameters.empty())
    return;
  const bool divided = of_gradients && std::any_of(parameters.begin(), parameters.end(), is_unscaled);
  if (divided)
    divide_scaled(scaler, parameters, site);
  const Device device = parameters[0].second.data().device();
  optimizer().scale_losses(divided ? scaler.one_on(device) : scaler.scale_on(device));
}

void Trainer::follow_scale(SourceLocation site) const {
  if (scaler_ != nullptr && scaler_->is_enabled())
    scaler_->follow(optimizer().last_guard(), site);
}

void Trainer::unscale(const amp::GradScaler& scaler, SourceLocation site) {
  check_scaler(scaler);
  const std::vector<ParameterDict::Entry> fresh = fresh_parameters(true);
  require(fresh.empty() || !std::all_of(fresh.begin(), fresh.end(), is_unscaled), [] {
    return "gradients were unscaled already, and no backward computed others since";
  });
  divide_scaled(scaler, fresh, site);
}

NDArray Trainer::step_scaled(
    const amp::GradScaler& scaler,
    const std::vector<NDArray>& stepped,
    std::int64_t batch_size,
    bool ignore_stale_grad,
    SourceLocation site) {
  check_scaler(scaler);
  const NDArray before = optimizer().last_guard();
  require(std::none_of(stepped.begin(), stepped.end(), [&](const NDArray& guard) { return guard.same(before); }), [] {
    return "the trainer has stepped since the scaler's last update()";
  });
  if (scaler_ != nullptr) {
    step(batch_size, ignore_stale_grad, site);
    return {};
  }
  require(!is_recorded_, [] {
    return "a step was recorded of losses that were not scaled; give the trainer its scaler before, by "
           "amp::init_trainer()";
  });
  const std::vector<ParameterDict::Entry> fresh = fresh_parameters(true);
  NDArray kept;  // taken before the step: once that was made nothing may fail, nor while the optimizer has the scale
  if (!fresh.empty())
    kept = empty({3}, {.dtype = float64, .device = fresh[0].second.data().device()});
  sluice::detail::CallRoom room(1);
  const amp::AutocastScope as_they_are(std::nullopt);
  use_scale(scaler, fresh, true, site);
  try {
    step(batch_size, ignore_stale_grad, site);
  } catch (...) {
    optimizer().scale_losses({});
    throw;
  }
  optimizer().scale_losses({});
  if (kept.defined()) {
    const autograd::PauseScope unrecorded;
    room.open();
    copy_into(optimizer().last_guard(), kept, site);
  }
  return kept;
}

}  // namespace sluice::gluon
