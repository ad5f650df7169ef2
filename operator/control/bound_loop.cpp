// A while_loop that a GPU runs by itself: its states lie in the node's results, where each turn finds those of the one
// before; turns are counted there, too.
#include <sluice/engine/detail/region_branch.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/condition.h>
#include <sluice/operator/control/detail/bound_bodies.h>
#include <sluice/operator/control/detail/while_parts.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>

namespace sluice::control {

namespace {

Specs infer_turn(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {{{}, bool_, inputs[0].device}};
}

/// Of whether the condition holds, and of the number of turns, which grows: whether there is another turn.
constinit const Operator k_count_turn{
    .name = "while_loop",
    .inputs = 2,
    .attributes = &attribute_type<TurnAttributes>,
    .infer = infer_turn,
    .kernels = {on_gpu(SLUICE_GPU_KERNEL(count_turn_gpu))},
    .mutated_inputs = 0b10};

/// An array as each of the body's outputs.
Arrays arrays_like(const Subgraph& body, Engine& engine) {
  Arrays made;
  for (const ArraySpec& spec : specs_of(body.graph(), body.graph().outputs))
    made.push_back(sluice::detail::make_empty(engine, spec.shape, {.dtype = spec.dtype, .device = spec.device}));
  return made;
}

class BoundLoop final : public BoundBodies {
 public:
  BoundLoop(const WhileAttributes& a, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine)
      : parts_(a, inputs.size()),
        most_(a.max_iterations),
        room_(new_room(std::vector{a.condition, a.body}, inputs[0].device(), engine)),
        truth_(arrays_like(a.condition, engine)),
        made_(arrays_like(a.body, engine)),
        goes_on_(sluice::detail::make_empty(engine, {}, {.dtype = bool_, .device = inputs[0].device()})),
        condition_(a.condition, parts_.of_condition(Span(in_place(inputs, results))), truth_, room_, engine),
        body_(a.body, parts_.of_body(Span(in_place(inputs, results))), made_, room_, engine) {}

  void push(std::span<const NDArray> inputs, std::span<const NDArray> results, SourceLocation site) override;
  void poison(SourceLocation site) const override {
    condition_.poison(site);
    body_.poison(site);
  }
  std::size_t bytes() const override {
    std::size_t bytes = condition_.bytes() + body_.bytes();
    for (const Arrays* const arrays : {&room_, &truth_, &made_}) {
      for (const NDArray& array : *arrays)
        bytes += bytes_of(array);
    }
    return bytes;
  }

 private:
  using Span = std::span<const NDArray>;
  Span states_of(Span results) const { return results.subspan(parts_.body.stacked, parts_.body.states); }
  /// The inputs with the states where the turns have them.
  std::vector<NDArray> in_place(Span inputs, Span results) const;
  void ask(Span inputs, const NDArray& turns, std::int64_t taken, SourceLocation site);
  void turn(Span inputs, Span results, SourceLocation site);

  const WhileParts parts_;
  const std::int64_t most_;
  const Arrays room_, truth_, made_;
  const NDArray goes_on_;
  BoundSide condition_, body_;
};

std::vector<NDArray> BoundLoop::in_place(Span inputs, Span results) const {
  const Span states = states_of(results);
  std::vector<NDArray> arrays(states.begin(), states.end());
  const Span others = inputs.subspan(states.size());
  arrays.insert(arrays.end(), others.begin(), others.end());
  return arrays;
}

void BoundLoop::ask(Span inputs, const NDArray& turns, std::int64_t taken, SourceLocation site) {
  condition_.push(parts_.of_condition(inputs), truth_, site);
  const NDArray both[] = {truth_[0].astype(bool_, site), turns};  // NaN is true
  invoke(k_count_turn, both, Attributes::of(TurnAttributes{taken, most_}), site, {&goes_on_, 1});
}

void BoundLoop::turn(Span inputs, Span results, SourceLocation site) {
  const NDArray& turns = results.back();
  const Span states = states_of(results), made(made_);
  body_.push(parts_.of_body(inputs), made, site);
  for (std::size_t i = 0; i < parts_.body.stacked; ++i)
    results[i].assign({turns}, made[i], site);
  for (std::size_t i = 0; i < states.size(); ++i)
    sluice::detail::push_copy(made[parts_.body.stacked + i], states[i], site);
  ask(inputs, turns, 1, site);
}

void BoundLoop::push(Span inputs, Span results, SourceLocation site) {
  const Span states = states_of(results);
  for (std::size_t i = 0; i < states.size(); ++i)
    sluice::detail::push_copy(inputs[i], states[i], site);
  for (const NDArray& stacked : results.first(parts_.body.stacked))
    sluice::detail::push_fill(stacked, 0, site);
  sluice::detail::push_fill(results.back(), 0, site);
  const std::vector<NDArray> given = in_place(inputs, results);
  ask(given, results.back(), 0, site);

  sluice::detail::RegionLoop loop(goes_on_.engine(), condition_of("while_loop", goes_on_), site);
  for (const Arrays* const arrays : {&room_, &truth_, &made_})
    tell_own(loop, *arrays);
  condition_.tell_own(loop);
  body_.tell_own(loop);
  turn(given, results, site);
  loop.end_turn();
}

}  // namespace

std::unique_ptr<BoundBodies> bound_loop(
    const WhileAttributes& a, std::span<const NDArray> inputs, std::span<const NDArray> results, Engine& engine) {
  return std::make_unique<BoundLoop>(a, inputs, results, engine);
}

}  // namespace sluice::control
