#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {
class Trainer;
}

// Losses that are scaled so that gradients of half types are not lost (PyTorch's torch.amp.GradScaler, MXNet's
// LossScaler).
namespace sluice::amp {

/// Settings of a GradScaler: those of MXNet's.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without inf and nan after which the scale grows
  double max_scale = 16777216;          // 2^24
  double min_scale = 1.0 / 16384;
  bool enabled = true;  // false: losses, gradients and steps are as without: for bfloat16, which has float32's range
};

/// A scale for losses, which grows as long as gradients are finite and shrinks where they are not. Whether a step's
/// gradients are, whether it changes anything and what the scale is then is known on the device alone: the host waits
/// for none of it, and steps that are recorded or traced go on with the scale as it is when they run. A step that is
/// left out changes no parameter, no state of the optimizer and no number of steps that it corrects by.
///
///     amp::GradScaler scaler;
///     ...
///     scaler.scale(losses).backward();
///     scaler.step(trainer, batch_size);
///     scaler.update();
///
/// Or, at Gluon's places, amp::init_trainer(trainer), amp::scale_loss(losses, trainer).backward() and
/// trainer.step(batch_size), which does all three; a TrainStep of such a trainer scales by itself. Copies share the
/// scale. Several trainers whose losses it scales all step by step(), before one update(); one that init_trainer() gave
/// to a trainer is that trainer's alone, since its steps update the scale at once. One thread at a time.
class SLUICE_API GradScaler {
 public:
  using States = std::map<std::string, NDArray>;

  /// Throws ValueError for scales that, rounded to float32, are not finite, normal (1.2e-38 and more) and in order
  /// (min, init, max), a growth below 1, a backoff outside (0, 1], an interval below 1.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// The loss times the scale, recorded where the loss is on the tape; float32 of a half type.
  NDArray scale(const NDArray& loss, SourceLocation site = SourceLocation::current()) const;
  /// Divides the gradients of what the trainer's next step updates by the scale, in place, for who looks at them
  /// before or writes them, clipped say: that step does not divide them again. This lasts until backward computes
  /// others, so a step may be left out. Throws ValueError where it was done already, and, as steps do, where backward
  /// added (GradReq::add) to one since; DTypeError for gradients of float16, which would become 0: then nothing has
  /// changed. Clipping by their norm needs it not: Trainer::guard_gradients().
  void unscale(gluon::Trainer& trainer, SourceLocation site = SourceLocation::current()) const;
  /// Trainer::step() of gradients of a scaled loss. Throws what that throws, and ValueError for a trainer that it
  /// stepped since the last update() already, that has another scaler, or that has none while another has this or once
  /// a step of it was recorded (Trainer::apply_step()).
  void step(
      gluon::Trainer& trainer,
      std::int64_t batch_size,
      bool ignore_stale_grad = false,
      SourceLocation site = SourceLocation::current());
  /// Once the trainers have stepped: the scale for the next steps, smaller if one of them was left out. Nothing where
  /// none stepped, or trainers did this themselves (init_trainer()). Where it throws, OutOfMemory say, the scale is as
  /// it was, and it may be called again.
  void update(SourceLocation site = SourceLocation::current());

  bool is_enabled() const noexcept;
  /// The scale, float32 of shape (): memory that steps write. Reading it waits.
  NDArray loss_scale() const;
  /// How many steps in a row had finite gradients since the scale changed last, int64 of shape ().
  NDArray clean_steps() const;
  /// From now on. Throws ValueError outside the options' bounds.
  void set_loss_scale(double scale) const;
  /// Copies of "loss_scale" and "clean_steps". Trainer::save_states() has them of a trainer's own scaler.
  States states() const;
  /// Goes on from states(). Waits for them. Throws ValueError, and changes nothing, where one is missing or cannot be.
  void load_states(const States& states) const;

 private:
  friend class gluon::Trainer;
  struct State;

  /// A copy for the one trainer whose steps update the scale. Throws ValueError where there is another.
  std::shared_ptr<const GradScaler> given_to_trainer() const;
  /// May a trainer whose own scaler is this one (null: none) step by the scaler?
  bool is_that_of(const GradScaler* trainers) const noexcept;
  /// The same, `before` being done once nothing else can fail.
  void load_states(const States& states, const std::function<void()>& before) const;
  States made_of(double scale, std::int64_t clean) const;
  void write(const States& made) const;
  /// The scale where `device` is, made if need be.
  NDArray scale_on(Device device) const;
  NDArray one_on(Device device) const;
  /// The scale after a step whose guard, or whose product of guards, is this.
  void follow(const NDArray& taken, SourceLocation site) const;

  std::shared_ptr<State> state_;
};

/// Gives the trainer a scaler of its own, whose scale each step goes by and then updates (MXNet's amp.init_trainer).
/// Throws ValueError where it has one, where another trainer has this one (unless it is not enabled), or a step was
/// recorded already.
SLUICE_API void init_trainer(gluon::Trainer& trainer, const GradScalerOptions& options = {});
SLUICE_API void init_trainer(gluon::Trainer& trainer, const GradScaler& scaler);
/// The loss times the scale of the trainer's scaler. Throws ValueError for a trainer without one.
SLUICE_API NDArray
scale_loss(const NDArray& loss, const gluon::Trainer& trainer, SourceLocation site = SourceLocation::current());
/// GradScaler::unscale() by the trainer's scaler. Throws ValueError for a trainer without one.
SLUICE_API void unscale(gluon::Trainer& trainer, SourceLocation site = SourceLocation::current());

}  // namespace sluice::amp
