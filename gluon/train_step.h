#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/hybrid.h>
#include <sluice/gluon/trainer.h>
#include <sluice/operator/graph/plan.h>

namespace sluice::gluon::metric {
class Metric;
}

namespace sluice::gluon {

/// How a TrainStep works.
struct TrainStepOptions {
  std::size_t most_plans = 8;  // of other shapes, types, devices; the one used longest ago goes
  graph::PlanOptions plan = {};
  BatchSizes batch_sizes = BatchSizes::any;  // as of HybridOptions
  bool predictions = true;  // false: a plan neither keeps nor copies what the network gave, and StepResult has none
};

/// What a step gives.
struct StepResult {
  NDArray losses = {};       // one value a sample, as the loss gives them
  NDArray predictions = {};  // the first array that the network gave; undefined where the options say so
  NDArray labels = {};       // of a BatchProcessor: what metrics compare predictions with; none: the batch's label
  Arrays outputs = {};       // all that the network gave; none where the options say so
};

/// A training step as one graph: forward, loss, backward and the optimizer's update, traced once for each shape of
/// samples, whatever the size of the batch (BatchSizes), and then run again, on a GPU as one CUDA graph. Parameters,
/// their gradients, optimizer states and running statistics are what they are after the same step by hand, to the last
/// bit; learning rates and random numbers go on.
///
///     gluon::TrainStep step(net, loss, trainer);
///     for (auto [x, y] : loader)
///       losses = step(x, y).losses;
///
/// Traced anew where parameters, their grad_req or multipliers changed, also of blocks that are used and no children, a
/// child was replaced, or an array that forward() brings along became a variable. By hand are taken the first step of a
/// network whose shapes are not known yet, and those whose forward() writes its samples or records into arrays that
/// stay. What forward() does beside calling operators happens when it is traced alone; where it looks at values,
/// tracing throws ValueError. Parameters of branches and loops that are not taken get zeros as gradients
/// (operator/control/control.h), and are updated. Network, loss and trainer must outlive the step. One thread at a
/// time.
class SLUICE_API TrainStep {
 public:
  TrainStep(const Block& net, const Block& loss, Trainer& trainer, const TrainStepOptions& options = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;
  ~TrainStep();

  /// One step on samples x with labels y, n of each along the first axis; gradients are divided by n. Does not wait.
  /// Throws what the network, the loss and the trainer throw; ValueError where backward does not reach a parameter that
  /// is to be trained, UnsupportedError for x or y on the tape. A step that throws was not counted.
  StepResult operator()(const NDArray& x, const NDArray& y, SourceLocation site = SourceLocation::current());
  /// The same for a network of several inputs or a loss of other arrays than one label (sample weights, say): the loss
  /// gets all that the network gives, then `labels`. n is the first axis of the first sample array.
  ///
  ///     step({tokens, lengths}, {labels, weights});
  StepResult operator()(
      std::initializer_list<NDArray> samples,
      std::initializer_list<NDArray> labels,
      SourceLocation site = SourceLocation::current());
  StepResult call(
      std::span<const NDArray> samples,
      std::span<const NDArray> labels,
      SourceLocation site = SourceLocation::current());

  /// From the next step on each adds its batch to these metrics too, in place of those of an earlier call: within the
  /// plan those of plain operators (Loss, Accuracy, TopKAccuracy, MAE, MSE, RMSE, CrossEntropy, Perplexity), behind it
  /// all others. Labels are the first of the step's; the figures are to the last bit those of update(). A change has
  /// steps traced anew. Throws ValueError for null.
  void add_up(std::vector<std::shared_ptr<metric::Metric>> metrics);

  /// The plan of the last step; null before the first one that was traced.
  const graph::Plan* plan() const noexcept;
  /// Steps that were traced so far; what was made of one for a batch of another size is none.
  std::size_t traced() const noexcept;
  /// Why the last step was taken by hand, or is more than one CUDA graph, as Block::hybrid_reason() says of a call;
  /// empty where it is one, and on a CPU.
  std::string hybrid_reason() const;

 private:
  struct State;
  static std::span<const ParameterDict::Entry> prepared(const Trainer& trainer) noexcept;
  static void trace_step(Trainer& trainer, SourceLocation site);
  static void cancel_step(Trainer& trainer);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::gluon
