// What a trainer does about scaled losses.
#include <algorithm>
#include <memory>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/trainer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon {

void Trainer::set_scaler(const amp::GradScaler& scaler) {
  require(scaler_ == nullptr && !is_recorded_, [&] {
    return is_recorded_ ? "a step was recorded and would go on as it is; give the trainer its scaler before"
                        : "the trainer has a scaler already";
  });
  if (scaler.is_enabled())
    optimizer().scale_losses(scaler.loss_scale());
  scaler_ = std::make_unique<amp::GradScaler>(scaler);
}

void Trainer::check_scaler(const amp::GradScaler& scaler) const {
  require(scaler_ == nullptr || scaler_->state_ == scaler.state_, [] {
    return "the trainer has a scaler of its own, by amp::init_trainer(); use that one";
  });
}

// Where the parameters are; of gradients that were divided already nothing is left to do but to look at them.
void Trainer::use_scale(const amp::GradScaler& scaler, std::span<const ParameterDict::Entry> parameters) {
  if (!scaler.is_enabled() || parameters.empty())
    return;
  const Device device = parameters[0].second.data().device();
  optimizer().scale_losses(unscaled_ ? scaler.one_on(device) : scaler.scale_on(device));
}

void Trainer::follow_scale(SourceLocation site) const {
  if (scaler_ != nullptr && scaler_->is_enabled())
    scaler_->follow(optimizer().last_guard(), site);
}

void Trainer::unscale(const amp::GradScaler& scaler, SourceLocation site) {
  check_scaler(scaler);
  require(!unscaled_, [] { return "gradients were unscaled already since the last step"; });
  const autograd::PauseScope unrecorded;
  const amp::AutocastScope as_they_are(std::nullopt);
  for (const auto& [name, parameter] : fresh_parameters(true)) {
    const NDArray grad = parameter.grad();
    copy_into(divide(grad, scaler.scale_on(grad.device()), site), grad, site);
  }
  unscaled_ = true;
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
  const std::vector<ParameterDict::Entry> fresh = fresh_parameters(true);
  use_scale(scaler, fresh);
  try {
    step(batch_size, ignore_stale_grad, site);
  } catch (...) {
    optimizer().scale_losses({});
    throw;
  }
  optimizer().scale_losses({});
  return fresh.empty() ? NDArray() : optimizer().last_guard();
}

}  // namespace sluice::gluon
