#include <array>
#include <cfloat>
#include <cmath>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/trainer.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/call_room.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/update/loss_scale.h>

namespace sluice::amp {

namespace {

constexpr const char* k_scale = "loss_scale";
constexpr const char* k_clean = "clean_steps";

// What a scale is kept in: bounds that were not rounded alike would exclude a scale that stands at one.
// Not inlined: of two such roundings side by side GCC 12 makes one of vectors at -O3, and leaves it out.
[[gnu::noinline]] double as_kept(double scale) {
  return static_cast<float>(scale);
}

GradScalerOptions with_kept_scales(GradScalerOptions options) {
  options.init_scale = as_kept(options.init_scale);
  options.min_scale = as_kept(options.min_scale);
  options.max_scale = as_kept(options.max_scale);
  return options;
}

void check_scale(const GradScalerOptions& options, double scale) {
  scale = as_kept(scale);
  require(std::isfinite(scale) && scale >= options.min_scale && scale <= options.max_scale, [&] {
    return message(
        "GradScaler: a scale of ", scale, " is not within [", options.min_scale, ", ", options.max_scale, "]");
  });
}

void check(const GradScalerOptions& options) {
  require(options.min_scale >= double{FLT_MIN} && std::isfinite(options.max_scale), [&] {
    return message(
        "GradScaler: scales from min_scale = ",
        options.min_scale,
        " to max_scale = ",
        options.max_scale,
        " must be normal float32, from ",
        FLT_MIN,
        " on, and finite: who divides by a smaller one gets inf");
  });
  check_scale(options, options.init_scale);
  require(std::isfinite(options.growth_factor) && options.growth_factor >= 1, [&] {
    return message("GradScaler: growth_factor is ", options.growth_factor, ", it must be finite and at least 1");
  });
  require(options.backoff_factor > 0 && options.backoff_factor <= 1, [&] {
    return message("GradScaler: backoff_factor is ", options.backoff_factor, ", it must be above 0 and at most 1");
  });
  require(options.growth_interval >= 1, [&] {
    return message("GradScaler: growth_interval is ", options.growth_interval, ", it must be at least 1");
  });
}

/// Arrays of the scaler itself are made and written off the tape, in their own types.
class Apart {
 private:
  autograd::PauseScope unrecorded_;
  AutocastScope as_they_are_{std::nullopt};
};

/// The same, and outside of what is traced.
class Outside {
 private:
  Apart apart_;
  CallSinkScope nobody_{nullptr};
};

const NDArray& entry_of(const GradScaler::States& states, const char* name, DType dtype) {
  const auto found = states.find(name);
  require(found != states.end(), [&] { return message("GradScaler: the states lack the entry '", name, "'"); });
  require(found->second.defined() && found->second.size() == 1 && found->second.dtype() == dtype, [&] {
    return message("GradScaler: '", name, "' is not one ", dtype);
  });
  return found->second;
}

}  // namespace

struct GradScaler::State {
  GradScalerOptions options;
  NDArray scale = {}, clean = {}, one = {};  // on the device of the parameters
  std::vector<NDArray> stepped = {};         // the optimizers' memory for guards that stepped since the last update()
  std::vector<NDArray> guards = {};          // what stood there: their next steps write over it
  std::weak_ptr<const GradScaler> of_trainer = {};
};

GradScaler::GradScaler(const GradScalerOptions& options) : state_(std::make_shared<State>()) {
  state_->options = with_kept_scales(options);
  check(state_->options);
  const Outside outside;
  state_->scale = full({}, state_->options.init_scale, {.dtype = float32});
  state_->clean = full({}, 0, {.dtype = int64});
  state_->one = full({}, 1, {.dtype = float32});
}

std::shared_ptr<const GradScaler> GradScaler::given_to_trainer() const {
  require(!is_enabled() || state_->of_trainer.expired(), [] {
    return "the scaler is that of another trainer, whose steps update it at once; give each trainer a scaler, or step "
           "both by GradScaler::step(), then update()";
  });
  const auto given = std::make_shared<const GradScaler>(*this);
  state_->of_trainer = given;
  return given;
}

bool GradScaler::is_that_of(const GradScaler* trainers) const noexcept {
  const std::shared_ptr<const GradScaler> given = state_->of_trainer.lock();
  return trainers == nullptr ? given == nullptr : trainers->state_ == state_;
}

bool GradScaler::is_enabled() const noexcept {
  return state_->options.enabled;
}

NDArray GradScaler::loss_scale() const {
  return state_->scale;
}

NDArray GradScaler::clean_steps() const {
  return state_->clean;
}

NDArray GradScaler::scale_on(Device device) const {
  State& state = *state_;
  if (state.scale.device() != device) {
    const Outside outside;
    std::array moved{state.scale.to(device), state.clean.to(device), state.one.to(device)};  // all or none
    state.scale = std::move(moved[0]);
    state.clean = std::move(moved[1]);
    state.one = std::move(moved[2]);
  }
  return state.scale;
}

NDArray GradScaler::one_on(Device device) const {
  scale_on(device);
  return state_->one;
}

NDArray GradScaler::scale(const NDArray& loss, SourceLocation site) const {
  return gluon::detail::called("GradScaler::scale", site, [&]() -> NDArray {
    require(loss.defined() && is_floating(loss.dtype()), [] { return "takes losses of a floating type"; });
    if (!is_enabled())
      return loss;
    const NDArray scale = scale_on(loss.device());
    const autograd::ModeScope recorded(autograd::on_tape(loss), autograd::is_training());
    const AutocastScope as_it_is(std::nullopt);
    return multiply(loss, scale, site);
  });
}

void GradScaler::unscale(gluon::Trainer& trainer, SourceLocation site) const {
  gluon::detail::called("GradScaler::unscale", site, [&] {
    if (is_enabled())
      trainer.unscale(*this, site);
  });
}

void GradScaler::step(gluon::Trainer& trainer, std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site) {
  gluon::detail::called("GradScaler::step", site, [&] {
    if (!is_enabled())
      return trainer.step(batch_size, ignore_stale_grad, site);
    std::vector<NDArray>&stepped = state_->stepped, &guards = state_->guards;
    stepped.reserve(stepped.size() + 1);  // once it has stepped nothing may fail
    guards.reserve(guards.size() + 1);
    const NDArray guard = trainer.step_scaled(*this, stepped, batch_size, ignore_stale_grad, site);
    if (!guard.defined())
      return;
    stepped.push_back(trainer.optimizer().last_guard());
    guards.push_back(guard);
  });
}

void GradScaler::update(SourceLocation site) {
  gluon::detail::called("GradScaler::update", site, [&] {
    const std::vector<NDArray>& guards = state_->guards;
    if (guards.empty())
      return;
    const Apart apart;
    NDArray all = guards[0];
    for (std::size_t i = 1; i < guards.size(); ++i)
      all = minimum(all, guards[i].to(all.device(), site), site);
    follow(all, site);
    state_->guards.clear();  // not before: who gets no memory for them may try again
    state_->stepped.clear();
  });
}

// Behind a step, hence without the heap: who calls it has opened the scope in which calls are made as they are.
void GradScaler::follow(const NDArray& guard, SourceLocation site) const {
  const autograd::PauseScope unrecorded;
  const GradScalerOptions& o = state_->options;
  const NDArray scale = scale_on(guard.device());
  sluice::detail::loss_scale_update(
      scale,
      state_->clean,
      guard,
      {.growth_factor = o.growth_factor,
       .backoff_factor = o.backoff_factor,
       .max_scale = o.max_scale,
       .min_scale = o.min_scale,
       .growth_interval = o.growth_interval},
      site);
}

// In two steps: where there is no memory for one of them neither is written. Who calls write() has room for its two.
GradScaler::States GradScaler::made_of(double scale, std::int64_t clean) const {
  return {
      {k_scale, full({}, scale, {.dtype = float32, .device = state_->scale.device()})},
      {k_clean, full({}, clean, {.dtype = int64, .device = state_->clean.device()})}};
}

void GradScaler::write(const States& made) const {
  copy_into(made.at(k_scale), state_->scale);
  copy_into(made.at(k_clean), state_->clean);
}

void GradScaler::set_loss_scale(double scale) const {
  check_scale(state_->options, scale);
  const Outside outside;
  const States made = made_of(scale, 0);
  sluice::detail::CallRoom room(2);
  room.open();
  write(made);
}

GradScaler::States GradScaler::states() const {
  const Outside outside;
  return {{k_scale, state_->scale.copy()}, {k_clean, state_->clean.copy()}};
}

void GradScaler::load_states(const States& states) const {
  load_states(states, [] {});
}

void GradScaler::load_states(const States& states, const std::function<void()>& before) const {
  const Outside outside;
  const auto scale = entry_of(states, k_scale, float32).item<float>();
  const auto clean = entry_of(states, k_clean, int64).item<std::int64_t>();
  check_scale(state_->options, scale);
  require(clean >= 0, [&] { return message("GradScaler: '", k_clean, "' is ", clean, ", below 0"); });
  const States made = made_of(scale, clean);
  sluice::detail::CallRoom room(2);
  before();
  room.open();
  write(made);
}

namespace {

const GradScaler& scaler_of(const gluon::Trainer& trainer) {
  const GradScaler* const scaler = trainer.scaler();
  require(scaler != nullptr, [] { return "the trainer has no scaler; give it one by amp::init_trainer(trainer)"; });
  return *scaler;
}

}  // namespace

void init_trainer(gluon::Trainer& trainer, const GradScalerOptions& options) {
  trainer.set_scaler(GradScaler(options));
}

void init_trainer(gluon::Trainer& trainer, const GradScaler& scaler) {
  trainer.set_scaler(scaler);
}

NDArray scale_loss(const NDArray& loss, const gluon::Trainer& trainer, SourceLocation site) {
  return gluon::detail::called("amp::scale_loss", site, [&] { return scaler_of(trainer).scale(loss, site); });
}

void unscale(gluon::Trainer& trainer, SourceLocation site) {
  gluon::detail::called("amp::unscale", site, [&] { scaler_of(trainer).unscale(trainer, site); });
}

}  // namespace sluice::amp
