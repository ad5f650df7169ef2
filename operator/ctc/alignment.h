#pragma once

// The sums over alignments of one sequence, the same on CPU and GPU. States stand for the labels with a blank before,
// between and behind them: state s is a blank where s is even, label s / 2 otherwise.
#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/half.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Of ctc_loss and of the operators that it is made of. Inputs are data and labels, then lengths as they are used.
struct CtcAttributes {
  bool use_data_lengths = false, use_label_lengths = false;
  bool blank_first = true, zero_infinity = false;

  template <class V>
  void visit(V&& v) {
    v.field("use_data_lengths", use_data_lengths);
    v.field("use_label_lengths", use_label_lengths);
    v.field("blank_first", blank_first);
    v.field("zero_infinity", zero_infinity);
  }
};

/// Integers of any type; none: `otherwise` for all.
struct CtcNumbers {
  const void* data = nullptr;
  DType dtype = DType::int64;
  std::int64_t otherwise = 0;

  SLUICE_HD std::int64_t operator[](std::int64_t i) const noexcept {
    return data == nullptr ? otherwise : load_index(data, dtype, i);
  }
};

/// A sequence: its place in the batch, its steps and how many labels it has.
struct CtcSequence {
  std::int64_t n = 0, steps = 0, labels = 0;

  SLUICE_HD std::int64_t states() const noexcept { return 2 * labels + 1; }
};

/// What cannot be of a sequence: a number and the bound that it is to lie below.
struct CtcFault {
  const char* what = nullptr;
  std::int64_t value = 0, bound = 0;
};

template <class C>
SLUICE_HD inline C ctc_nothing() noexcept {
  return -std::numeric_limits<C>::infinity();
}

/// log(e^a + e^b + e^c); a NaN remains one.
template <class C>
SLUICE_HD C ctc_sum(C a, C b, C c) {
  C most = b > a || b != b ? b : a;
  most = c > most || c != c ? c : most;
  if (most == ctc_nothing<C>())
    return most;
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// A batch of sequences. `alphas` (N, T, 2 L + 1): the log of the sum over all ways to a state at a step.
template <class C>
struct CtcBatch {
  const C* log_probs;  // (T, N, C)
  C* alphas;
  CtcNumbers labels, data_lengths, label_lengths;
  std::int64_t steps, batch, classes, longest;  // longest: L
  bool blank_first, zero_infinity;

  SLUICE_HD std::int64_t blank() const noexcept { return blank_first ? 0 : classes - 1; }
  SLUICE_HD std::int64_t label(std::int64_t n, std::int64_t i) const noexcept { return labels[n * longest + i]; }
  SLUICE_HD std::int64_t width() const noexcept { return 2 * longest + 1; }
  SLUICE_HD bool is_padding(std::int64_t label) const noexcept { return label < (blank_first ? 1 : 0); }

  /// Sequence n; where it cannot be, one without steps and labels, and `fault` says why.
  SLUICE_HD CtcSequence sequence(std::int64_t n, CtcFault& fault) const noexcept {
    CtcSequence is{n, data_lengths[n], label_lengths[n]};
    if (label_lengths.data == nullptr) {
      for (is.labels = 0; is.labels < longest && !is_padding(label(n, is.labels));)
        ++is.labels;
    }
    if (is.steps < 0 || is.steps > steps)
      fault = {"a length of data", is.steps, steps + 1};
    else if (is.labels < 0 || is.labels > longest)
      fault = {"a length of labels", is.labels, longest + 1};
    for (std::int64_t i = 0; fault.what == nullptr && i < is.labels; ++i) {
      const std::int64_t value = label(n, i);
      if (value < 0 || value >= classes || value == blank())
        fault = {"a label", value, classes};
    }
    return fault.what == nullptr ? is : CtcSequence{n, 0, 0};
  }

  SLUICE_HD std::int64_t class_of(const CtcSequence& of, std::int64_t state) const noexcept {
    return state % 2 == 0 ? blank() : label(of.n, state / 2);
  }
  /// Can a way go on to `state` from two states before? Over a blank, if it does not part equal labels.
  SLUICE_HD bool skips_to(const CtcSequence& of, std::int64_t state) const noexcept {
    return state % 2 == 1 && state >= 3 && label(of.n, state / 2) != label(of.n, state / 2 - 1);
  }
  SLUICE_HD C spoken(const CtcSequence& of, std::int64_t step, std::int64_t state) const noexcept {
    return log_probs[(step * batch + of.n) * classes + class_of(of, state)];
  }
  SLUICE_HD C* row(const CtcSequence& of, std::int64_t step) const noexcept {
    return alphas + (of.n * steps + step) * width();
  }

  /// From the row of the step before.
  SLUICE_HD C alpha(const CtcSequence& of, std::int64_t step, std::int64_t s) const {
    if (step == 0)
      return s < 2 ? spoken(of, 0, s) : ctc_nothing<C>();
    const C* const before = row(of, step - 1);
    const C one = s >= 1 ? before[s - 1] : ctc_nothing<C>();
    const C two = skips_to(of, s) ? before[s - 2] : ctc_nothing<C>();
    return ctc_sum(before[s], one, two) + spoken(of, step, s);
  }
  /// The log of the probability of the labels.
  SLUICE_HD C likelihood(const CtcSequence& of) const {
    if (of.steps == 0)
      return of.labels == 0 ? C(0) : ctc_nothing<C>();
    const C* const last = row(of, of.steps - 1);
    const std::int64_t s = of.states() - 1;
    return ctc_sum(last[s], s > 0 ? last[s - 1] : ctc_nothing<C>(), ctc_nothing<C>());
  }
  SLUICE_HD C loss(const CtcSequence& of) const {
    const C log = likelihood(of);
    return zero_infinity && log == ctc_nothing<C>() ? C(0) : -log;
  }

  /// The log of the sum over all ways on from a state, of the row of the step behind.
  SLUICE_HD C beta(const CtcSequence& of, std::int64_t step, std::int64_t s, const C* behind) const {
    const std::int64_t states = of.states();
    if (step == of.steps - 1)
      return s + 2 >= states ? C(0) : ctc_nothing<C>();
    const C stays = behind[s] + spoken(of, step + 1, s);
    const C one = s + 1 < states ? behind[s + 1] + spoken(of, step + 1, s + 1) : ctc_nothing<C>();
    const bool skips = s + 2 < states && skips_to(of, s + 2);
    return ctc_sum(stays, one, skips ? behind[s + 2] + spoken(of, step + 1, s + 2) : ctc_nothing<C>());
  }
  /// How likely a state is at a step, given the labels.
  SLUICE_HD C share(const CtcSequence& of, std::int64_t step, std::int64_t s, C beta, C likelihood) const {
    if (likelihood == ctc_nothing<C>())
      return zero_infinity ? C(0) : std::numeric_limits<C>::quiet_NaN();
    return std::exp(row(of, step)[s] + beta - likelihood);
  }
};

/// Of a kernel call whose inputs are log_probs, labels and, from `first` on, lengths.
template <class C>
CtcBatch<C> ctc_batch(const KernelCall& call, void* alphas, std::size_t first) {
  const auto& how = call.attributes.as<CtcAttributes>();
  const TensorView &x = call.inputs[0], &labels = call.inputs[1];
  const std::int64_t longest = labels.shape[1];
  const auto lengths = [&](bool used, std::int64_t otherwise) {
    if (!used)
      return CtcNumbers{nullptr, DType::int64, otherwise};
    const TensorView& given = call.inputs[first++];
    return CtcNumbers{given.data, given.dtype, 0};
  };
  const CtcNumbers data_lengths = lengths(how.use_data_lengths, x.shape[0]);
  const CtcNumbers label_lengths = lengths(how.use_label_lengths, 0);
  return {
      x.as<const C>(),
      static_cast<C*>(alphas),
      {labels.data, labels.dtype, 0},
      data_lengths,
      label_lengths,
      x.shape[0],
      x.shape[1],
      x.shape[2],
      longest,
      how.blank_first,
      how.zero_infinity};
}

/// Calls f.operator()<C>() with float or double.
template <class F>
void by_ctc_type(DType dtype, F&& f) {
  if (dtype == DType::float64)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

// log_probs, labels, lengths -> losses, alphas
void ctc_alignment_cpu(const KernelCall& call);
void ctc_alignment_gpu(const KernelCall& call);
// log_probs, labels, alphas, dy, lengths -> the gradient of log_probs
void ctc_alignment_backward_cpu(const KernelCall& call);
void ctc_alignment_backward_gpu(const KernelCall& call);

/// The gradient of log_probs in operators that can themselves be differentiated, for a backward that is recorded.
NDArray ctc_recorded_gradient(const GradientCall& call);

}  // namespace sluice::detail
