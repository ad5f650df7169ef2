#pragma once

#include <cstdint>
#include <optional>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

// All of these take float16, bfloat16, float32 and float64 (half types compute in float), give x's type, and throw
// DTypeError for other types, IndexError for an axis out of range, ShapeError for labels that do not fit.

/// exp(x) / sum(exp(x)) along `axis`, shifted by the maximum so that nothing overflows.
SLUICE_API NDArray softmax(const NDArray& x, int axis = -1, SourceLocation site = SourceLocation::current());
/// log(softmax(x)), without the rounding of taking it apart.
SLUICE_API NDArray log_softmax(const NDArray& x, int axis = -1, SourceLocation site = SourceLocation::current());
/// softmax(x / temperature) of the elements of each row whose `mask` is not 0, and 0 for the others; a row without any
/// is 0 (MXNet npx.masked_softmax). The mask is of any type and broadcasts to x's shape. Throws ShapeError where it
/// does not, ValueError for a temperature that is not above 0.
SLUICE_API NDArray masked_softmax(
    const NDArray& x,
    const NDArray& mask,
    int axis = -1,
    double temperature = 1,
    SourceLocation site = SourceLocation::current());
/// The logarithm of that, -inf where the mask is 0 (MXNet npx.masked_log_softmax).
SLUICE_API NDArray masked_log_softmax(
    const NDArray& x,
    const NDArray& mask,
    int axis = -1,
    double temperature = 1,
    SourceLocation site = SourceLocation::current());

/// Of softmax_cross_entropy().
struct CrossEntropyOptions {
  int axis = -1;                             // of the classes
  std::optional<std::int64_t> ignored = {};  // rows of this label, a class or none, give 0 and no gradient
  double smoothing = 0;                      // in [0, 1): the part of the loss that is the mean over all classes
  NDArray class_weights = {};                // (classes,), floating: a row counts as much as the weight of its label
};

/// -log(softmax(logits))[label], one per row: the shape of `logits` without `axis`. `labels` holds class indices of
/// any integer type and has that shape too. A label outside [0, classes) is an IndexError at the wait.
SLUICE_API NDArray softmax_cross_entropy(
    const NDArray& logits, const NDArray& labels, int axis = -1, SourceLocation site = SourceLocation::current());
/// The same with options, as torch.nn.functional.cross_entropy(reduction="none") has them (ignore_index,
/// label_smoothing, weight). Of log p = log_softmax(logits) and w the weights, or 1, a row is
///
///     (1 - smoothing) * w[label] * -log p[label] + smoothing * (the mean over classes c of w[c] * -log p[c])
///
/// and 0 where the label is ignored, with a gradient of 0 whatever the logits are. Throws ValueError for a smoothing
/// out of range, ShapeError and DTypeError for weights that are not a floating number a class.
SLUICE_API NDArray softmax_cross_entropy(
    const NDArray& logits,
    const NDArray& labels,
    const CrossEntropyOptions& options,
    SourceLocation site = SourceLocation::current());

/// Of negative_log_likelihood().
struct LikelihoodOptions {
  int axis = -1;                             // of the classes
  std::optional<std::int64_t> ignored = {};  // rows of this label, a class or none, give 0 and no gradient
  NDArray class_weights = {};                // (classes,), floating: a row is multiplied by the weight of its label
};

/// -log_probs[label], one per row (torch.nn.functional.nll_loss without the mean). Shapes and labels as in
/// softmax_cross_entropy().
SLUICE_API NDArray negative_log_likelihood(
    const NDArray& log_probs, const NDArray& labels, int axis = -1, SourceLocation site = SourceLocation::current());
/// The same with options (ignore_index and weight of nll_loss). Throws ShapeError and DTypeError for weights that are
/// not a floating number a class.
SLUICE_API NDArray negative_log_likelihood(
    const NDArray& log_probs,
    const NDArray& labels,
    const LikelihoodOptions& options,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
