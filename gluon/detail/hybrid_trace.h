#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/any_batch.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/operator/graph/split.h>

namespace sluice::gluon::detail {

/// What a call of a forward gives and reaches, whatever the size of its batch.
struct ForwardOutline {
  std::string by_hand = {};  // why a plan would not do the same: it writes its inputs, say; empty: it does
  bool training = false;
  bool recorded = false;                    // somebody may ask for gradients
  std::size_t outputs = 0;                  // the program's own
  std::vector<std::size_t> undefined = {};  // results of forward that are none, among which those of the program stand
  std::vector<ParameterRead> others = {};   // parameters of blocks that are not the block's own
  std::vector<bool> passed_on = {};      // outputs that forward returned as it had them, with their place on the tape
  std::vector<bool> wanted = {};         // inputs that gradients reach
  std::vector<NDArray> parameters = {};  // the same
  std::vector<std::size_t> heads = {};   // outputs that are on the tape
};

/// One call of a forward as a graph: of recorded calls with the gradients behind it, and the places where these end.
struct TracedForward : ForwardOutline {
  Traced program = {};
  graph::SplitPlace place = {};
  std::vector<bool> batched = {};  // inputs whose first extent may be another one; none of a program that is not proven
};

/// Which call is traced.
struct ForwardCall {
  const std::function<Arrays(std::span<const NDArray>)>& forward;
  std::span<const ArraySpec> inputs;
  const std::vector<bool>& wanted;           // inputs that somebody may ask gradients of
  const std::vector<Parameter>& parameters;  // of the network
  bool recorded = false;                     // something that it reads is on the tape
};

/// Traces the call in the current engine. Throws what forward throws.
TracedForward trace_forward(const ForwardCall& call);

/// Says in `traced.batched` whether the program is the same for other batches. Calls forward once more, for another
/// size, unless what it asked says already that it is not; what it throws then counts as no.
void compare_batches(const ForwardCall& call, TracedForward& traced);

/// The same for inputs of these shapes, without calling forward; null where the program may be another.
std::shared_ptr<TracedForward> for_batch(const TracedForward& known, std::span<const ArraySpec> inputs);

}  // namespace sluice::gluon::detail
