#pragma once

#include <span>

#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/train_step.h>

namespace sluice::gluon::detail {

/// What a step begins with, as a graph or by hand: the network on its samples, then the loss on all that it gave and
/// the labels. Without StepResult::predictions. Throws what both throw, and ValueError for a loss that gives nothing.
inline StepResult forward_with_loss(
    const Block& net,
    const Block& loss,
    std::span<const NDArray> samples,
    std::span<const NDArray> labels,
    SourceLocation site) {
  StepResult result{.outputs = net.call(samples, site)};
  Arrays given = result.outputs;
  given.insert(given.end(), labels.begin(), labels.end());
  const Arrays losses = loss.call(given, site);
  require(!losses.empty(), [] { return "the loss gives nothing"; });
  result.losses = losses.front();
  return result;
}

/// Takes the arrays off the tape; undefined ones stay so.
inline void detach_all(Arrays& arrays) {
  for (NDArray& array : arrays) {
    if (array.defined())
      array = array.detach();
  }
}

}  // namespace sluice::gluon::detail
