#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/sequence.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/rnn/composed.h>
#include <sluice/operator/rnn/problem.h>

// Sequences of several lengths where no kernel takes them.
namespace sluice::detail {

namespace {

struct Sequences {
  RnnProblem p;
  NDArray x;        // zeros beyond a sequence, where it may be anything: 0 times that would reach gradients
  NDArray lengths;  // (N,)
  NDArray padding;  // (T, N, 1), true beyond a sequence
  SourceLocation site;
};

// Turning over leaves padding as it is, and throws for a length outside 0 .. T, whatever hangs on it. Nothing is less
// than itself, a NaN neither: zeros of as many steps and samples, without asking for their number.
Sequences sequences_of(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const NDArray &x = inputs[0], &lengths = inputs[2];
  const NDArray some = x.detach().slice(2, 0, 1, 1, site);
  const NDArray padding = sequence_mask(less(some, some, site), lengths, 1, 0, site);
  return {
      rnn_problem(rnn_lengths_op, spec_of(x), spec_of(inputs[1]), how),
      sequence_mask(x, lengths, 0, 0, site),
      lengths,
      sequence_reverse(padding, lengths, 0, site),
      site};
}

/// Further columns of a layer's weights, for inputs that are 1 in padding. The first one keeps an LSTM's cells (its
/// forget gate is 1, its input gate 0) and ends a state that could grow beyond all numbers, the others are 0.
NDArray holding_columns(const RnnProblem& p, const NDArray& weight, std::int64_t count, SourceLocation site) {
  const double much = p.dtype == DType::float16 ? 3e4 : 1e30;
  const auto block = [&](std::int64_t gates, std::int64_t columns, double value) {
    return full({gates * p.hidden, columns}, value, {.dtype = weight.dtype(), .device = weight.device()}, site);
  };
  const NDArray first = p.mode == RnnMode::rnn_relu
                            ? block(1, 1, -much)
                            : concat({block(1, 1, -much), block(1, 1, much), block(2, 1, 0)}, 0, site);
  return count == 1 ? first : concat({first, block(p.gates(), count - 1, 0)}, 1, site);
}

// h after each sequence's last step; of none that of before.
NDArray last_of(const Sequences& s, const NDArray& y, const Arrays& before) {
  const NDArray is_none = equal(s.lengths, 0, s.site);
  const NDArray last = sequence_last(y, add(s.lengths, is_none.astype(s.lengths.dtype(), s.site), s.site), 0, s.site);
  return before.empty() ? last : where(is_none.expand_dims(1, s.site), before[0], last, s.site);
}

RecurrentResult run_through(
    const Sequences& s, NDArray x, const Arrays& before, const RecurrentWeights& w, bool backwards) {
  const SourceLocation site = s.site;
  const auto turned = [&](const NDArray& steps) {
    return backwards ? sequence_reverse(steps, s.lengths, 0, site) : steps;
  };
  x = turned(x);
  NDArray weight = w.i2h_weight;
  if (s.p.mode == RnnMode::lstm || s.p.mode == RnnMode::rnn_relu) {
    const std::int64_t more = 8 - weight.shape()[1] % 8;  // rows of so many as tensor cores take
    x = concat({x, s.padding.astype(x.dtype(), site).broadcast_to({-1, -1, more}, site)}, 2, site);
    weight = concat({weight, holding_columns(s.p, weight, more, site)}, 1, site);
  }
  std::vector<NDArray> given{
      x, concat({weight.reshape({-1}, site), w.h2h_weight.reshape({-1}, site), w.i2h_bias, w.h2h_bias}, 0, site)};
  for (const NDArray& state : before)
    given.push_back(state.expand_dims(0, site));
  const RnnAttributes how{rnn_mode_name(s.p.mode), s.p.hidden, 1, false, autograd::is_recording()};
  const Arrays made = invoke(rnn_op, given, Attributes::of(how), site);
  const NDArray y = where(s.padding, 0, made[0], site);  // not by lengths, which nobody has looked at
  Arrays ends{last_of(s, y, before)};
  if (s.p.has_cells())
    ends.push_back(made[2].squeeze(0, site));
  return {turned(y), ends};
}

}  // namespace

Arrays rnn_lengths_by_steps(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const Sequences s = sequences_of(inputs, how, site);
  const auto run = [&](const NDArray& x, const Arrays& before, const RecurrentWeights& weights, bool backwards) {
    RecurrentResult all = recurrent_steps(s.p.mode, x, before, weights, backwards, site, s.padding);
    all.outputs = sequence_mask(all.outputs, s.lengths, 0, 0, site);
    return all;
  };
  return over_layers(s.p, s.x, inputs[1], inputs.subspan(3), run, site);
}

Arrays rnn_lengths_by_runs(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  const Sequences s = sequences_of(inputs, how, site);
  const auto run = [&](const NDArray& x, const Arrays& before, const RecurrentWeights& weights, bool backwards) {
    return run_through(s, x, before, weights, backwards);
  };
  return over_layers(s.p, s.x, inputs[1], inputs.subspan(3), run, site);
}

Arrays rnn_lengths_composed(std::span<const NDArray> inputs, const RnnAttributes& how, SourceLocation site) {
  RnnProblem part = rnn_problem(rnn_lengths_op, spec_of(inputs[0]), spec_of(inputs[1]), how);
  part.layers = part.directions = 1;
  return is_for_library(inputs[0].device(), part) ? rnn_lengths_by_runs(inputs, how, site)
                                                  : rnn_lengths_by_steps(inputs, how, site);
}

}  // namespace sluice::detail
