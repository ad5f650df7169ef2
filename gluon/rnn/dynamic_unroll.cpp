#include <sluice/engine/error.h>
#include <sluice/gluon/rnn/cell.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/control/control.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon::rnn {

namespace {

void check(const NDArray& inputs, const DynamicUnrollOptions& o) {
  for (const double rate : {o.drop_inputs, o.drop_outputs}) {
    require(rate >= 0 && rate <= 1, [&] {
      return message("rnn::dynamic_unroll: a share of ", rate, " to drop is not within [0, 1]");
    });
  }
  require(inputs.defined(), [] { return "rnn::dynamic_unroll: inputs are an undefined NDArray"; });
  const Shape& shape = sluice::detail::unseen_shape(inputs);
  const int axis = o.layout == Layout::TNC ? 0 : 1;
  require<ShapeError>(shape.ndim() >= 2 && shape[axis] >= 1, [&] {
    const char* const axes = axis == 0 ? "(T, N, ..)" : "(N, T, ..)";
    return message("rnn::dynamic_unroll: takes ", axes, " of a step or more, not ", shape);
  });
}

// The same entries at all steps, the first axis.
NDArray dropped(const NDArray& all, double rate, SourceLocation site) {
  if (rate == 0 || !autograd::is_training())
    return all;
  return multiply(all, dropout(ones_like(all.slice(0, 0, 1, 1, site)), rate, site), site);
}

// A number or flag a sample as an array that goes with `like`, (N, ..).
NDArray beside(const NDArray& flags, const NDArray& like, SourceLocation site) {
  Shape shape = Shape::filled(sluice::detail::unseen_shape(like).ndim(), 1);
  shape[0] = -1;
  return flags.reshape(shape, site);
}

// Zeros for as many samples as x, (T, N, ..), has. In a trace they follow x, whose other batches it then serves too.
Arrays begin_for(const Cell& cell, const NDArray& x, SourceLocation site) {
  const Shape& shape = sluice::detail::unseen_shape(x);
  const bool follows = sluice::detail::calls_are_taken() && shape.size() > 0;
  Arrays states = cell.begin_state(follows ? 1 : x.shape()[1], x.device());
  if (!follows)
    return states;
  NDArray sample = x.detach();
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (axis != 1)
      sample = sample.slice(axis, 0, 1, 1, site);
  }
  for (NDArray& one : states)
    one = add(one, beside(zeros_like(sample, site).astype(one.dtype(), site), one, site), site);
  return states;
}

// True where a step is behind its sample's last one: (T, N).
NDArray padding_of(const NDArray& x, const NDArray& valid_length, SourceLocation site) {
  const NDArray steps = arange(0, static_cast<double>(x.shape()[0]), 1, {.dtype = int64, .device = x.device()});
  return greater_equal(steps.reshape({-1, 1}), valid_length.astype(int64, site).reshape({1, -1}), site);
}

}  // namespace

Unrolled dynamic_unroll(
    const Cell& cell,
    const NDArray& inputs,
    const Arrays& begin_state,
    const DynamicUnrollOptions& options,
    SourceLocation site) {
  return sluice::detail::located(site, [&]() -> Unrolled {
    check(inputs, options);
    const bool is_first = options.layout == Layout::TNC;
    const NDArray x = dropped(is_first ? inputs : inputs.swapaxes(0, 1, site), options.drop_inputs, site);
    Arrays data{x};
    if (options.valid_length.defined())
      data.push_back(padding_of(x, options.valid_length, site));
    const Arrays begin = begin_state.empty() ? begin_for(cell, x, site) : begin_state;
    const ForeachBody step = [&](const Arrays& now, const Arrays& before) -> LoopResult {
      Arrays given{now[0]};
      given.insert(given.end(), before.begin(), before.end());
      const Arrays results = cell.call(given, site);
      NDArray output = results[0];
      Arrays after(results.begin() + 1, results.end());
      if (now.size() == 2) {
        output = where(beside(now[1], output, site), 0, output, site);
        for (std::size_t i = 0; i < after.size(); ++i)
          after[i] = where(beside(now[1], after[i], site), before[i], after[i], site);
      }
      return {{output}, after};
    };
    const LoopResult all = foreach(step, data, begin, site);
    const NDArray outputs = dropped(all.outputs[0], options.drop_outputs, site);
    return {is_first ? outputs : outputs.swapaxes(0, 1, site), all.states};
  });
}

}  // namespace sluice::gluon::rnn
