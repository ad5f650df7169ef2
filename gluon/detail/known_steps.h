#pragma once

// What a TrainStep knows of steps that it has traced.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/detail/any_batch.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon::detail {

/// What a step is given.
struct Batch {
  std::span<const NDArray> samples, labels;

  /// What metrics compare with.
  NDArray label() const { return labels.empty() ? NDArray() : labels.front(); }
  Arrays all() const {
    Arrays both(samples.begin(), samples.end());
    both.insert(both.end(), labels.begin(), labels.end());
    return both;
  }
};

/// What a plan was made for: inputs are those of the network, then those that the loss gets as they are. Arrays by
/// identity: the plan's graph keeps them, so that no other comes to stand there.
struct Signature {
  std::vector<ArraySpec> inputs;
  std::size_t samples = 0;  // as many inputs are the network's
  Float32Precision precision;
  std::optional<DType> autocast;
  std::vector<const void*> parameters;
  std::vector<double> multipliers;  // of decays, which are part of the step

  bool operator==(const Signature& other) const {
    return is_like(other) && std::equal(
                                 inputs.begin(),
                                 inputs.end(),
                                 other.inputs.begin(),
                                 other.inputs.end(),
                                 [](const ArraySpec& a, const ArraySpec& b) {
                                   return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
                                 });
  }
  /// All but the inputs.
  bool is_like(const Signature& other) const {
    return samples == other.samples && precision == other.precision && autocast == other.autocast &&
           parameters == other.parameters && multipliers == other.multipliers;
  }
};

/// A step as it was traced, and the inputs whose first extent may be another.
struct TracedStep {
  Traced program = {};
  std::string by_hand = {};  // why a plan would not do the same: it writes its samples, say; empty: it does
  std::vector<ParameterRead> others = {};   // parameters of blocks that are not part of network or loss
  std::vector<std::size_t> undefined = {};  // of what the network gives: no values of a graph
  std::vector<bool> batched = {};

  bool is_for_any_batch() const { return std::find(batched.begin(), batched.end(), true) != batched.end(); }
};

/// An array that a program brought along, and what it was to the tape.
struct Brought {
  NDArray array;
  std::shared_ptr<const autograd::Variable> variable;
};

struct Known {
  Signature signature;
  std::unique_ptr<graph::Plan> plan = {};         // null: by hand
  std::string by_hand = {};                       // why
  std::shared_ptr<const TracedStep> traced = {};  // null of a step for one size of batches alone
  std::vector<Brought> brought = {};
  std::vector<ParameterRead> others = {};   // as of the step
  std::vector<std::size_t> undefined = {};  // the same

  /// All that the network gives of those that the plan does.
  Arrays outputs_of(std::span<const NDArray> made) const {
    Arrays all(made.begin(), made.end());
    for (const std::size_t at : undefined)
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), NDArray());
    return all;
  }

  bool is_outdated() const {
    const auto has_other_gradient = [](const Brought& one) { return one.array.object()->variable != one.variable; };
    return std::any_of(brought.begin(), brought.end(), has_other_gradient) ||
           std::any_of(others.begin(), others.end(), [](const auto& read) { return read.is_outdated(); });
  }
};

}  // namespace sluice::gluon::detail
