#include <limits>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/ctc/alignment.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/walk/walk.h>

// The sums over alignments step by step, of operators that have gradients of any order.
namespace sluice::detail {

namespace {

constexpr double k_none = -1e30;  // in place of the log of 0: differences of two of them are numbers

/// All as int64, (N, 1) and (N, 2 L + 1).
struct Sequences {
  NDArray steps, labels, classes;
};

Sequences sequences_of(const GradientCall& call, const ArrayOptions& whole) {
  const auto& how = call.attributes.as<CtcAttributes>();
  const Shape& x = call.input_specs[0].shape;
  const std::int64_t batch = x[1], blank = how.blank_first ? 0 : x[2] - 1;
  const std::int64_t longest = call.input_specs[1].shape[1];
  std::size_t next = 2;
  Sequences made;
  made.steps =
      how.use_data_lengths ? call.inputs[next++].astype(int64).reshape({batch, 1}) : full({batch, 1}, x[0], whole);
  const NDArray given = call.inputs[1].astype(int64);
  if (how.use_label_lengths)
    made.labels = call.inputs[next].astype(int64).reshape({batch, 1});
  else
    made.labels = sum(cumprod((given >= (how.blank_first ? 1 : 0)).astype(int64), 1), {1}, true);
  const NDArray place = arange(0, static_cast<double>(longest), 1, whole).reshape({1, longest});
  const NDArray labels = where(place < made.labels, given, blank), blanks = full({batch, longest}, blank, whole);
  const NDArray pairs = stack({blanks, labels}, 2).reshape({batch, 2 * longest});
  made.classes = concat({pairs, full({batch, 1}, blank, whole)}, 1);
  return made;
}

// Entries of (N, states) moved on by `by` states.
NDArray moved(const NDArray& x, std::int64_t by, Scalar beside) {
  return pad(x, {{0, 0}, {by, 0}}, PadMode::constant, beside).slice(1, 0, x.shape()[1]);
}

NDArray losses(const NDArray& log_probs, const Sequences& of, const ArrayOptions& whole, bool zero_infinity) {
  const Shape& x = log_probs.shape();
  const std::int64_t states = of.classes.shape()[1], batch = x[1];
  const NDArray number = arange(0, static_cast<double>(states), 1, whole).reshape({1, states});
  const NDArray skips = logical_and(equal(mod(number, 2), 1), not_equal(of.classes, moved(of.classes, 2, -1)));
  const NDArray spoken = take_along_axis(log_probs, of.classes.expand_dims(0), 2);  // (T, N, states)
  const ArrayOptions of_sums{.dtype = log_probs.dtype(), .device = log_probs.device()};
  NDArray alpha = where(number < 2, zeros({batch, states}, of_sums), k_none);
  for (std::int64_t step = 0; step < x[0]; ++step) {
    NDArray sums = alpha;
    if (step > 0)
      sums = logaddexp(logaddexp(alpha, moved(alpha, 1, k_none)), where(skips, moved(alpha, 2, k_none), k_none));
    alpha = where(of.steps > step, sums + spoken[step], alpha);
  }
  const NDArray last = take_along_axis(alpha, of.labels * 2, 1);
  const NDArray before = take_along_axis(alpha, maximum(of.labels * 2 - 1, 0), 1);
  NDArray log = logaddexp(last, where(of.labels > 0, before, k_none)).reshape({batch});
  if (x[0] == 0)
    log = log + sum(log_probs, {0, 2});  // no step did: the tape is to know what the loss is of
  const double odd = zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN();
  return where(log < k_none / 2, odd, -ones_like(log)) * log;
}

}  // namespace

NDArray ctc_recorded_gradient(const GradientCall& call) {
  const NDArray& log_probs = call.inputs[0];
  const ArrayOptions whole{.dtype = int64, .device = log_probs.device()};
  const bool zero_infinity = call.attributes.as<CtcAttributes>().zero_infinity;
  const std::vector<NDArray> loss{losses(log_probs, sequences_of(call, whole), whole, zero_infinity)};
  const std::vector<NDArray> heads{call.output_grads[0]};
  const std::vector<autograd::Entry> places{autograd::entry_of(log_probs)};
  return autograd::grad_at(call.op.name, loss, heads, places, {.create_graph = true}, SourceLocation::current())[0];
}

}  // namespace sluice::detail
