#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/amp/grad_scaler.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/gluon/parameter.h>

namespace sluice::gluon {

/// Parameters plus an optimizer (Gluon's Trainer). A parameter that stands under several names is updated once.
/// Parameters with grad_req null are not touched.
class SLUICE_API Trainer {
 public:
  template <std::derived_from<optimizer::Optimizer> O>
  Trainer(ParameterDict parameters, O optimizer)
      : Trainer(std::move(parameters), std::make_unique<O>(std::move(optimizer))) {}
  /// Throws ValueError if there is no parameter at all.
  Trainer(ParameterDict parameters, std::unique_ptr<optimizer::Optimizer> optimizer);

  /// One update: gradients are divided by `batch_size`, since losses give one value per sample and backward() adds
  /// them up. One task; the host does not wait. Throws ValueError for batch_size < 1, for a parameter that is not
  /// initialised, and for one whose gradient no backward computed since the last step; `ignore_stale_grad` leaves
  /// the last two as they are; under a sink (operator/sink.h) where a step was prepared and not applied.
  void step(std::int64_t batch_size, bool ignore_stale_grad = false, SourceLocation site = SourceLocation::current());

  /// step() in two halves, for steps that are recorded once and run again (engine/region.h, operator/sink.h): before
  /// each run prepare_step(), which counts the step and writes learning rates and `batch_size` where the run reads
  /// them; in what is recorded apply_step(). Both concern the parameters that are trained when the step is prepared;
  /// whether their gradients are fresh nobody asks. Where apply_step() is called for gradients that were unscaled
  /// (amp::unscale()), the step, and what is recorded of it, does not divide them again: of a recorded step they are to
  /// be so before each run, or in it. The host does not wait. prepare_step() throws ValueError for
  /// batch_size < 1, for a parameter that is to be trained and not initialised, while a region records, and, once a
  /// region recorded apply_step() or a sink took it, where other parameters than in that step are to be trained: what
  /// was recorded would go on without their rates, also where the recording failed after apply_step() was called in it.
  /// apply_step() throws ValueError where nothing was prepared, and where step() would because backward added to
  /// gradients that were unscaled. After a throw all is as it was before. What was recorded goes on with the states
  /// that it was recorded with: after load_states(), and where scaled losses came to train parameters that they did not
  /// when it was, record anew.
  void prepare_step(std::int64_t batch_size, SourceLocation site = SourceLocation::current());
  void apply_step(SourceLocation site = SourceLocation::current());

  /// From now on gradients are of losses that this scaler scales: each step divides by its scale, is left out where one
  /// is inf or nan, and updates the scale (amp::init_trainer()). One that is not enabled changes nothing. Throws
  /// ValueError where there is another, where another trainer has this one, and once a region recorded apply_step() or
  /// a sink took it; UnsupportedError for an optimizer that cannot.
  void set_scaler(const amp::GradScaler& scaler);
  /// That one; null: none.
  const amp::GradScaler* scaler() const noexcept { return scaler_.get(); }

  double learning_rate() const { return optimizer().learning_rate(); }
  void set_learning_rate(double learning_rate) { optimizer().set_learning_rate(learning_rate); }
  /// Learning rates by steps (gluon/lr_scheduler.h): `trainer.set_schedule(lr_scheduler::CosineScheduler({..}))`. Steps
  /// of a TrainStep follow it as those by hand. See Optimizer::set_schedule().
  void set_schedule(lr_scheduler::Schedule schedule) { optimizer().set_schedule(std::move(schedule)); }
  /// From the next step on the gradients of all parameters together are scaled to a norm of at most `max_norm`, and,
  /// with `skip_non_finite`, a step with a gradient that is inf or nan changes nothing: on the device, within the
  /// update, without a wait; norms are those of gradients divided by the batch size. Learning rates by steps and
  /// num_updates() go on over steps that are left out. What came of it: optimizer().last_guard(). Throws ValueError for
  /// a norm that is nan and once a region recorded apply_step() or a sink took it, UnsupportedError for an optimizer
  /// that cannot.
  void guard_gradients(const optimizer::GuardSettings& settings);
  /// Throws ValueError, as all calls do, once the trainer was moved from.
  optimizer::Optimizer& optimizer() const;

  /// Writes the optimizer's state as .npz; the host waits for it. Throws FileError.
  void save_states(const std::filesystem::path& path, SourceLocation site = SourceLocation::current()) const;
  /// Goes on from save_states(). Throws FileError, ValueError for a state that none of the parameters has and for
  /// those of another optimizer, ShapeError, DTypeError, each naming the file; then nothing has changed.
  void load_states(const std::filesystem::path& path, SourceLocation site = SourceLocation::current());
  /// What save_states() writes: the optimizer's state, and that of a GradScaler.
  optimizer::Optimizer::States states() const;
  /// Goes on from states(). Throws as it does of a file; errors name `origin`.
  void load_states(
      const optimizer::Optimizer::States& states,
      const std::string& origin,
      SourceLocation site = SourceLocation::current());

 private:
  friend class amp::GradScaler;
  friend class TrainStep;  // which traces steps, each for the parameters that it was prepared for
  void trace_step(SourceLocation site);
  void cancel_step();
  template <class Body>
  void located(const char* what, SourceLocation site, const Body& body);
  template <class Step>
  void divided_once(std::span<const ParameterDict::Entry> parameters, SourceLocation site, const Step& step);
  void update(std::int64_t batch_size, bool ignore_stale_grad, SourceLocation site);
  std::vector<ParameterDict::Entry> fresh_parameters(bool ignore_stale_grad) const;
  std::vector<ParameterDict::Entry> trained_parameters() const;
  bool are_prepared() const;
  void unscale(const amp::GradScaler& scaler, SourceLocation site);
  /// A copy of the step's guard; undefined where nothing was updated, or the trainer's own scaler has seen it.
  NDArray step_scaled(
      const amp::GradScaler& scaler,
      const std::vector<NDArray>& stepped,
      std::int64_t batch_size,
      bool ignore_stale_grad,
      SourceLocation site);
  static bool is_unscaled(const ParameterDict::Entry& entry);
  static void divide_scaled(
      const amp::GradScaler& scaler, std::span<const ParameterDict::Entry> parameters, SourceLocation site);
  void use_scale(
      const amp::GradScaler& scaler,
      std::span<const ParameterDict::Entry> parameters,
      bool of_gradients,
      SourceLocation site);
  void check_scaler(const amp::GradScaler& scaler) const;
  void follow_scale(SourceLocation site) const;
  void check_state(const std::string& file, const std::string& entry, const NDArray& state) const;

  std::vector<ParameterDict::Entry> parameters_;  // each once
  std::vector<ParameterDict::Entry> prepared_;
  bool is_recorded_ = false;                       // a step of prepared_
  std::shared_ptr<const amp::GradScaler> scaler_;  // whose state knows that it is a trainer's
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  SourceLocation called_ = {};  // the line of the last step
  const char* called_what_ = nullptr;
};

}  // namespace sluice::gluon
