#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/lr_scheduler.h>
#include <sluice/gluon/parameter.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::optimizer {

/// What is done about all gradients of a step together, before the optimizer sees them.
struct GuardSettings {
  double max_norm = -1;          // not negative: gradients are scaled so that their norm is this at most
  bool skip_non_finite = false;  // a step with a gradient that is inf or nan changes nothing
};

/// How weights follow gradients. State (momenta and the like, and how often the parameter was updated) is kept by
/// parameter name, made at first use beside the parameter, and moves with it. The optimizers: gluon/optimizers.h.
class SLUICE_API Optimizer {
 public:
  using States = std::map<std::string, NDArray>;

  virtual ~Optimizer() = default;

  /// What it is called in messages and in files: "SGD".
  virtual std::string name() const = 0;

  /// One step over all `parameters` with their gradients times `rescale_grad`: one task. Does not block. Throws
  /// DeviceError for parameters on several devices, ValueError while a region records, which would repeat its rates,
  /// and under a sink (operator/sink.h) where prepare() was called for these parameters and update_prepared() was not
  /// since, which would read the rates of this step.
  void update(
      std::span<const ParameterDict::Entry> parameters,
      double rescale_grad,
      SourceLocation site = SourceLocation::current());

  /// update() in two halves, for steps that are recorded once and run again (Region, CallSink). This one counts a step
  /// and writes what changes from step to step, learning rates with the correction for the step's number and
  /// `rescale_grad`, to memory that stays the same, for the other half to read when it runs. Each set of `parameters`,
  /// by their names in order, has memory of its own, which is kept: a recorded step reads what was last prepared for
  /// the parameters that it was recorded with, whatever is prepared for others. Call it before each run, outside what
  /// is recorded: once more when the first run records. Does not block. Throws as update() does, ValueError while a
  /// region records too, and UnsupportedError for an optimizer without numbers_of().
  void prepare(
      std::span<const ParameterDict::Entry> parameters,
      double rescale_grad,
      SourceLocation site = SourceLocation::current());
  /// The half that is recorded: one task, capturable, of the same `parameters` in the same order. Throws ValueError
  /// where no step of these was prepared, or none since losses are scaled or no longer are, states were loaded or it
  /// was taken back.
  void update_prepared(
      std::span<const ParameterDict::Entry> parameters, SourceLocation site = SourceLocation::current());
  /// Takes back what the last prepare(), of these parameters, counted: for a step that does not run. Nothing where
  /// states were loaded since.
  void cancel(std::span<const ParameterDict::Entry> parameters);
  /// Which arrays a recorded step of these parameters reads and writes beside theirs: where one is another, as after
  /// load_states(), the step is to be recorded anew.
  std::vector<NDArray> step_arrays(std::span<const ParameterDict::Entry> parameters) const;
  /// The same by identity, added to a list that has room: what who asks at each step compares.
  void add_step_arrays(std::span<const ParameterDict::Entry> parameters, std::vector<const void*>& to) const;

  /// From the next step on gradients, times rescale_grad, are scaled or looked at as it says: one pass over all of
  /// them, one task more; the host does not wait. A step that is left out is counted as any other. Throws ValueError
  /// for a norm that is nan, UnsupportedError for an optimizer without takes_guard().
  void guard(const GuardSettings& settings);
  /// From the next step on gradients are those of losses times `scale`, of shape () and float32, by which they are
  /// divided as it is when the step runs; undefined: of losses as they are. A step with a gradient that is inf or nan
  /// changes nothing then, and no parameter's number of steps: from here on these are counted on the device, for what
  /// goes by them and in states(); num_updates() and schedules count each step. Numbers of a guard() are those of
  /// gradients divided so. The host does not wait. Throws ValueError for another array, UnsupportedError for an
  /// optimizer without takes_guard(). For amp::GradScaler.
  void scale_losses(const NDArray& scale);
  /// What guard() made of the last step: float64 of shape (3,), the norm of all gradients, what they were scaled by
  /// because of it, and 1, or 0 for a step that was left out. Undefined before a step with a guard.
  NDArray last_guard() const noexcept { return guard_; }

  /// That of the next step; with a schedule that of the last one, before the first that of the first.
  double learning_rate() const noexcept { return learning_rate_; }
  /// Throws ValueError unless the rate is finite and not negative, and where a schedule says it.
  void set_learning_rate(double learning_rate);
  /// From now on each step has the rate that `schedule` gives for its number (num_updates() + 1), recorded ones
  /// (prepare()) too; an empty one ends that. A step throws what the schedule throws, and ValueError for a rate that is
  /// negative or not finite: then it was not taken.
  void set_schedule(lr_scheduler::Schedule schedule);
  /// Empty without one.
  const lr_scheduler::Schedule& schedule() const noexcept { return schedule_; }
  /// Steps taken so far.
  std::int64_t num_updates() const noexcept { return num_updates_; }
  /// Those that changed the parameter of that name: fewer if it was frozen for a while, or had no gradient.
  std::int64_t num_updates(const std::string& parameter) const noexcept;

  /// Copies of all state by name, "0.weight.mean"; the number of steps, "num_updates", and of each parameter,
  /// "0.weight.num_updates"; and the optimizer's name, "optimizer", as bytes. A step is counted once prepare() was
  /// called, before it runs; that of a parameter of scaled losses (scale_losses()) once it ran.
  States states() const;
  /// Goes on from states(). Throws ValueError, and changes nothing, if a name, a number of steps or a state is missing
  /// or cannot be, or if the states are another optimizer's.
  void load_states(const States& states);
  /// The parameter that an entry of states() belongs to; empty for entries of the optimizer itself.
  static std::string owner_of(const std::string& entry);
  /// The type of the state of parameters of that type: float64 for float64, else float32.
  static DType state_type(DType parameter) noexcept { return parameter == float64 ? float64 : float32; }
  /// Of what shape the state in a slot, "mean" say, is beside a parameter of that shape.
  virtual Shape state_shape([[maybe_unused]] const std::string& slot, const Shape& parameter) const {
    return parameter;
  }

 protected:
  /// The arrays of one step, in the order of the parameters.
  struct Step {
    std::vector<NDArray> weights = {}, grads = {};
    std::vector<double> learning_rate_multipliers = {}, weight_decay_multipliers = {};  // empty: all 1
    double rescale_grad = 1;
    std::vector<std::int64_t> numbers = {};  // of each parameter's step, counted from 1
    std::span<const ParameterDict::Entry> parameters = {};
    SourceLocation site = {};  // for the tasks
    NDArray in_memory = {};    // if defined, numbers_of() this step, or of the step that it stands for when it runs
    NDArray guard = {};        // if defined, what the update is to read (gradient_guard())
  };

  explicit Optimizer(double learning_rate);
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  virtual void apply(const Step& step) = 0;
  /// What changes from step to step, as the update that apply() makes reads it from `in_memory`
  /// (operator/update/update.h). Asked for by prepare(), and by update() under a sink. An optimizer that does not say
  /// it steps all the same, but not in what is recorded: this one throws UnsupportedError.
  virtual std::vector<double> numbers_of(const Step& step) const;
  /// Whether apply() has the update read Step::guard.
  virtual bool takes_guard() const { return false; }
  /// Whether numbers_of() go by those of the steps, so that corrections() makes them of those of k_late_step.
  virtual bool counts_steps() const { return false; }
  /// As step_corrections() (operator/update/corrections.h).
  virtual NDArray corrections(const NDArray& steps, SourceLocation site) const;
  /// Whether masters() are kept.
  virtual bool keeps_masters() const { return false; }
  /// The slots that state() is asked for.
  virtual std::vector<std::string> slots() const = 0;
  /// Those without which the states of a parameter that was updated are not whole; `any`: some are there at all.
  virtual std::vector<std::string> needed_slots([[maybe_unused]] bool any) const { return slots(); }
  /// Whether that slot begins as the weight, not as zeros.
  virtual bool begins_as_weight([[maybe_unused]] const std::string& slot) const { return false; }
  /// State array `slot` of each parameter: zeros at first use, or as begins_as_weight() has it, of state_shape(),
  /// float32 (float64 for float64).
  std::vector<NDArray> state(const Step& step, const std::string& slot);
  /// Slot "master" of the parameters of half types alone, in their order: what their updates take as masters. Where it
  /// is missing, or is not what the weight was rounded from, the weight counts.
  std::vector<NDArray> masters(const Step& step);

 private:
  static double checked_rate(double learning_rate);
  using Entries = std::span<const ParameterDict::Entry>;
  static std::vector<std::string> names_of(Entries parameters);
  /// Lists of names, and parameters by theirs.
  struct NamesBefore {
    using is_transparent = void;
    bool operator()(const std::vector<std::string>& a, const std::vector<std::string>& b) const { return a < b; }
    bool operator()(const std::vector<std::string>& a, Entries b) const;
    bool operator()(Entries a, const std::vector<std::string>& b) const;
  };
  struct Numbers;
  std::vector<NDArray> step_states(Entries parameters) const;
  bool are_states_there(const Step& step, const Numbers& numbers) const;
  void make_states(const Step& step);
  NDArray& state_of(const Step& step, std::size_t i, const std::string& slot);
  void make_guard(const Step& step);
  bool guards() const noexcept { return guards_ || loss_scale_.defined(); }
  /// Whether what a step reads from memory is another thing than what prepare() wrote there.
  bool is_scaled() const noexcept { return loss_scale_.defined() || taken_.counts.defined(); }
  void make_counts(const Step& step);
  bool are_counted(const Step& step) const;
  std::size_t place_of(const std::string& name) const;
  NDArray places_of(const Step& step);
  NDArray chosen_of(const Step& step);
  NDArray rescaled_numbers(const Step& step);
  NDArray counted_by(const Step& step);
  void apply_guarded(Step& step);
  /// A step in the lists of the one before, whose room stays: it goes back when it is over.
  struct LentStep {
    Optimizer& of;
    Step step;
    explicit LentStep(Optimizer& from) noexcept : of(from), step(std::exchange(from.room_, {})) {}
    LentStep(const LentStep&) = delete;
    LentStep& operator=(const LentStep&) = delete;
    ~LentStep();
  };
  void fill(Step& step, Entries parameters, double rescale_grad, SourceLocation site) const;
  void follow_schedule();
  void count(const Step& step);
  void refuse_in_region() const;
  void refuse_beside_prepared(std::span<const ParameterDict::Entry> parameters) const;
  /// Of these parameters: kept where a step of them was recorded or is prepared, else as long as few others came since.
  Numbers& numbers_for(const Step& step);
  /// Its numbers to memory: of a step that is recorded or prepared always the same memory, of another not that.
  void write_numbers(Step& step, bool for_later);

  double learning_rate_;
  lr_scheduler::Schedule schedule_;
  std::int64_t num_updates_ = 0;
  std::map<std::string, std::int64_t> counts_;  // by parameter
  States states_;
  GuardSettings guard_settings_;
  NDArray guard_;  // where each step's is written; another one where settings changed
  bool guards_ = false;
  NDArray loss_scale_;
  /// How many steps changed each parameter, float64 on its device, once steps may be left out without being counted.
  struct Taken {
    std::vector<std::string> names = {};
    NDArray counts = {};
  };
  Taken taken_;
  /// What a step reads from memory, and what was written there last.
  struct Numbers {
    NDArray array = {};
    std::vector<double> values = {};
    NDArray places = {};                   // of these parameters in taken_
    NDArray chosen = {};                   // 1 of these, 0 of the others there
    std::vector<ArraySpec> weights = {};   // for which there are states
    std::vector<const void*> states = {};  // all that a step reads and writes of these
    std::uint64_t states_made = 0;         // states_made_ then
    std::uint64_t used = 0;
    bool is_counted = false;   // the step that was prepared last is among those of now
    bool is_prepared = false;  // and reads it
    bool is_applied = false;   // and has been, once at least, since
    bool is_recorded = false;  // a step that runs again may read it

    bool is_kept() const noexcept { return is_recorded || (is_prepared && !is_applied); }
    void forget() {
      values.clear();
      is_prepared = false;
    }
  };
  std::map<std::vector<std::string>, Numbers, NamesBefore> numbers_;  // by the parameters that step together
  std::uint64_t states_made_ = 1;                                     // counts what put other arrays into states_
  Step room_;
  std::uint64_t uses_ = 0;
};

}  // namespace sluice::gluon::optimizer
