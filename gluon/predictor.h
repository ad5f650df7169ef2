#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/operator/graph/host_plan.h>

namespace sluice::gluon {

class Block;

/// How a Predictor works.
struct PredictorOptions {
  /// Requests that a GPU computes at once; each has memory and library handles of its own, made when it is first used.
  std::size_t most_at_once = 16;
  graph::Rounding rounding = graph::Rounding::as_by_hand;
  /// What comes of parameters alone is kept between requests, as graph::PlanOptions say.
  bool keep_derived = true;
};

/// A network from values of the host to values of the host, for any number of threads, each with its request:
///
///     const gluon::Predictor predict(net, abstract_array({{1, 1, 28, 28}, float32, gpu(0)}));
///     predict(std::span<const float>(pixels), std::span<float>(scores));   // any thread; waits for the scores
///
/// Inputs have one shape; Server makes batches of what comes together. Predict mode; nothing is recorded. A request
/// sees all that was pushed before it on the parameters, a training step say, as a call of the network does, and what
/// is pushed later waits for it; a GPU computes it as graph::HostPlan says. A request takes the next free of
/// the GPU's most_at_once memories; where all are in use it waits for the one that falls to its thread.
class SLUICE_API Predictor {
 public:
  using Counts = graph::HostPlanCounts;

  /// Traces the network for inputs of the shape, type and device of `examples` (abstract arrays will do), in the
  /// current engine, which has to be that of the parameters. Those that wait for their shape get it. `net` must outlive
  /// the predictor, where it is: a block that it was moved to is another one. While requests run nobody may change more
  /// of it than what parameters hold. What was changed between them is seen where it is parameters or layers: what
  /// forward does beside calling operators it did when it was traced, as under hybridize(); retrace() has it do that
  /// again. Throws what forward throws, ValueError where it looks at values, or where arrays are another engine's.
  Predictor(
      const Block& net,
      std::vector<NDArray> examples,
      const PredictorOptions& options = {},
      SourceLocation site = SourceLocation::current());
  Predictor(
      const Block& net,
      const NDArray& example,
      const PredictorOptions& options = {},
      SourceLocation site = SourceLocation::current())
      : Predictor(net, std::vector<NDArray>{example}, options, site) {}
  /// A network that nobody keeps.
  Predictor(
      const Block&& net,
      std::vector<NDArray> examples,
      const PredictorOptions& options = {},
      SourceLocation site = SourceLocation::current()) = delete;
  Predictor(
      const Block&& net,
      const NDArray& example,
      const PredictorOptions& options = {},
      SourceLocation site = SourceLocation::current()) = delete;
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;
  /// No request is under way.
  ~Predictor();

  /// Of a network with one input and one output, row-major, in their types. The host waits. Throws ShapeError and
  /// DTypeError for other values, EngineStopped, and what the network throws: then `to` holds nothing of use.
  template <class T, class R>
  void operator()(std::span<const T> from, std::span<R> to, SourceLocation site = SourceLocation::current()) const {
    const graph::HostValues in{from.data(), dtype_of<T>, static_cast<std::int64_t>(from.size())};
    const graph::HostRoom out{to.data(), dtype_of<R>, static_cast<std::int64_t>(to.size())};
    run({&in, 1}, {&out, 1}, site);
  }
  template <class T, class R>
  void operator()(
      const std::vector<T>& from, std::vector<R>& to, SourceLocation site = SourceLocation::current()) const {
    (*this)(std::span<const T>(from), std::span<R>(to), site);
  }
  /// The same of any network. Throws ValueError for other numbers of inputs and outputs too.
  void run(
      std::span<const graph::HostValues> inputs,
      std::span<const graph::HostRoom> outputs,
      SourceLocation site = SourceLocation::current()) const;

  /// Traces the network again, after a change that is neither one of parameters nor of layers, as of a number or an
  /// array that forward reads: what is asked later sees it. Throws as the constructor does, and then all is as before.
  void retrace();

  /// What requests bring, and what they get.
  const std::vector<ArraySpec>& inputs() const noexcept;
  std::vector<ArraySpec> outputs() const;
  /// Since the network was last changed.
  Counts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::gluon
