#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/train_step.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon {

namespace {

/// What a plan was made for. Arrays by identity: the plan's graph keeps them, so that no other comes to stand there.
struct Signature {
  Shape x_shape, y_shape;
  DType x_type, y_type;
  Device device;
  Float32Precision precision;
  std::vector<const void*> parameters;

  bool operator==(const Signature& other) const {
    return x_shape == other.x_shape && y_shape == other.y_shape && x_type == other.x_type && y_type == other.y_type &&
           device == other.device && precision == other.precision && parameters == other.parameters;
  }
};

struct Known {
  Signature signature;
  std::unique_ptr<graph::Plan> plan;
};

ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

}  // namespace

struct TrainStep::State {
  const Block& net;
  const Block& loss;
  Trainer& trainer;
  const TrainStepOptions options;
  std::vector<ParameterDict::Entry> parameters = {};
  std::deque<Known> known = {};  // the one used last comes first
  std::size_t traced = 0;

  bool is_complete() {
    if (parameters.empty()) {
      const ParameterDict all = net.collect_params();
      parameters.assign(all.begin(), all.end());
    }
    return std::all_of(
        parameters.begin(), parameters.end(), [](const auto& entry) { return entry.second.is_initialized(); });
  }

  Signature signature_of(const NDArray& x, const NDArray& y) const {
    Signature signature{
        x.shape(), y.shape(), x.dtype(), y.dtype(), x.device(), sluice::detail::current_float32_precision(), {}};
    for (const auto& [name, parameter] : parameters) {
      const auto* const object = parameter.data().object();
      signature.parameters.push_back(object);
      signature.parameters.push_back(object->variable == nullptr ? nullptr : object->variable->grad.object());
    }
    return signature;
  }

  StepResult forward_and_back(const NDArray& x, const NDArray& y, SourceLocation site) const {
    StepResult result;
    {
      const autograd::RecordScope record;
      result.predictions = net(x, site);
      result.losses = loss(result.predictions, y, site);
    }
    result.losses.backward();
    result.losses = result.losses.detach();
    result.predictions = result.predictions.detach();
    return result;
  }

  std::unique_ptr<graph::Plan> trace(const NDArray& x, const NDArray& y, SourceLocation site) {
    const EngineScope here(x.engine());
    graph::Tracer tracer;
    const NDArray samples = tracer.input(spec_of(x)), labels = tracer.input(spec_of(y));
    const graph::Graph graph = tracer.trace([&] {
      const StepResult result = forward_and_back(samples, labels, site);
      trainer.apply_step(site);
      return Arrays{result.losses, result.predictions};
    });
    ++traced;
    return std::make_unique<graph::Plan>(graph, options.plan, x.engine());
  }

  graph::Plan& plan_for(const NDArray& x, const NDArray& y, SourceLocation site) {
    Signature signature = signature_of(x, y);
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const Known& one) { return one.signature == signature; });
    if (found != known.end()) {
      std::rotate(known.begin(), found, found + 1);
      return *known.front().plan;
    }
    std::unique_ptr<graph::Plan> plan = trace(x, y, site);
    if (known.size() >= std::max<std::size_t>(options.most_plans, 1))
      known.pop_back();
    known.push_front({std::move(signature), std::move(plan)});
    return *known.front().plan;
  }

  StepResult run(const NDArray& x, const NDArray& y, SourceLocation site) {
    require(x.defined() && y.defined() && x.ndim() > 0, [] { return "takes samples and labels along a first axis"; });
    const std::int64_t samples = x.shape()[0];
    if (!is_complete()) {
      const StepResult result = forward_and_back(x, y, site);
      trainer.step(samples, false, site);
      return result;
    }
    trainer.prepare_step(samples, site);
    const NDArray inputs[] = {x, y};
    const Arrays results = plan_for(x, y, site).run(inputs, site);
    return {results[0], results[1]};
  }
};

TrainStep::TrainStep(const Block& net, const Block& loss, Trainer& trainer, const TrainStepOptions& options)
    : state_(new State{net, loss, trainer, options}) {}

TrainStep::~TrainStep() = default;

StepResult TrainStep::operator()(const NDArray& x, const NDArray& y, SourceLocation site) {
  return detail::called("TrainStep", site, [&] { return state_->run(x, y, site); });
}

const graph::Plan* TrainStep::plan() const noexcept {
  return state_->known.empty() ? nullptr : state_->known.front().plan.get();
}

std::size_t TrainStep::traced() const noexcept {
  return state_->traced;
}

}  // namespace sluice::gluon
