#include <cmath>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/projected_lstm.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/control/control.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::gluon::detail {

namespace {

NDArray clipped(const NDArray& cell, const StateClip& clip, SourceLocation site) {
  if (!clip.is_set())
    return cell;
  if (!clip.nan)
    return sluice::clip(cell, *clip.min, *clip.max, site);
  return fmin(fmax(cell, Scalar(*clip.min), site), Scalar(*clip.max), site);
}

// As many rows as the product of a step has, without asking for their number.
NDArray zero_state(const NDArray& products, std::int64_t units, SourceLocation site) {
  const NDArray some = products.detach().slice(0, 0, 1, 1, site).squeeze(0, site).slice(1, 0, 1, 1, site);
  return less(some, some, site).astype(products.dtype(), site).broadcast_to({-1, units}, site);
}

}  // namespace

void check_state_clip(const char* layer, const StateClip& clip) {
  require(clip.min.has_value() == clip.max.has_value(), [&] {
    return message(layer, ": state_clip_min and state_clip_max are given together or not at all");
  });
  require(!clip.is_set() || *clip.min <= *clip.max, [&] {
    return message(layer, ": state_clip_min ", *clip.min, " is not <= state_clip_max ", *clip.max);
  });
}

Arrays projected_step(const NDArray& product, const Arrays& states, const ProjectedWeights& w, SourceLocation site) {
  const std::int64_t hidden = w.gates.h2h_weight.shape()[0] / 4;
  const NDArray gates = add(product, dense(states[0], w.gates.h2h_weight, {}, {.flatten = false}, site), site);
  const auto gate = [&](std::int64_t i) { return gates.slice(1, i * hidden, (i + 1) * hidden, 1, site); };
  const NDArray kept = multiply(sigmoid(gate(1), site), states[1], site);
  const NDArray fresh = multiply(sigmoid(gate(0), site), tanh(gate(2), site), site);
  const NDArray cell = clipped(add(kept, fresh, site), w.clip, site);
  const NDArray h = multiply(sigmoid(gate(3), site), tanh(cell, site), site);
  return {w.h2r_weight.defined() ? dense(h, w.h2r_weight, {}, {.flatten = false}, site) : h, cell};
}

sluice::detail::RecurrentResult projected_steps(
    const NDArray& x,
    const Arrays& states,
    const ProjectedWeights& w,
    bool backwards,
    SourceLocation site,
    const NDArray& padding) {
  const auto in_order = [&](const NDArray& steps) { return backwards ? flip(steps, 0, site) : steps; };
  const NDArray products = in_order(sluice::detail::input_product(RnnMode::lstm, x, w.gates, site));
  Arrays begin = states;
  if (begin.empty()) {
    const Shape& weight = w.gates.h2h_weight.shape();
    begin = {zero_state(products, weight[1], site), zero_state(products, weight[0] / 4, site)};
  }
  const ForeachBody step = [&](const Arrays& data, const Arrays& before) -> LoopResult {
    Arrays after = projected_step(data[0], before, w, site);
    for (std::size_t i = 0; i < after.size() && amp::autocast_dtype(); ++i)
      after[i] = after[i].astype(before[i].dtype(), site);
    for (std::size_t i = 0; i < after.size() && data.size() == 2; ++i)
      after[i] = where(data[1], before[i], after[i], site);
    return {{after[0]}, after};
  };
  const Arrays data = padding.defined() ? Arrays{products, in_order(padding)} : Arrays{products};
  const LoopResult all = foreach(step, data, begin, site);
  return {in_order(all.outputs[0]), all.states};
}

}  // namespace sluice::gluon::detail
