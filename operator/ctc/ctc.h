#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Which class stands for no label.
enum class BlankLabel : std::uint8_t { first, last };

/// Of ctc_loss().
struct CtcLossOptions {
  NDArray data_lengths = {};   // steps of each sequence (N,), of an integer type; undefined: all steps
  NDArray label_lengths = {};  // labels of each (N,); undefined: those in front of the first padding
  BlankLabel blank = BlankLabel::first;
  bool zero_infinity = false;  // a sequence too short for its labels costs 0, without a gradient
};

/// Connectionist temporal classification (Graves et al., 2006; MXNet CTCLoss, PyTorch ctc_loss of log_softmax(data)
/// with reduction "none"): -log of the probability that the steps of `data` (T, N, C), logits, spell `labels` (N, L),
/// class indices of an integer type, once what repeats is one and blanks are left out. Gives (N,). Class 0 is the
/// blank, or C - 1, `last`; without label_lengths labels end at the first that is below 1, or below 0 for `last`. A
/// sequence of too few steps costs infinity and has NaN for a gradient. Floating types, summed up as logarithms in
/// float32 or float64, in a fixed order. Throws ShapeError, DTypeError; a label that is no class or the blank, and a
/// length that cannot be, is an IndexError at the wait.
SLUICE_API NDArray ctc_loss(
    const NDArray& data,
    const NDArray& labels,
    const CtcLossOptions& options = {},
    SourceLocation site = SourceLocation::current());

namespace detail {
extern const Operator k_ctc_loss, k_ctc_alignment, k_ctc_alignment_backward;
}  // namespace detail

}  // namespace sluice
