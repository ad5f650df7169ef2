#include "samples/inspect/network.h"

#include <filesystem>
#include <utility>

#include "samples/networks.h"

namespace samples {

namespace {

using namespace sluice;
using gluon::loss::SoftmaxCrossEntropyLoss;

Network made(Model model, std::int64_t batch, Device device) {
  model.net.initialize(gluon::init::Xavier(), device);
  return {
      std::make_unique<gluon::nn::Sequential>(std::move(model.net)),
      std::move(model.loss),
      {{{batch, 1, 28, 28}, float32, device}}};
}

Network imported(const std::string& name, std::int64_t batch, Device device) {
  const std::filesystem::path file = name.ends_with(".json") ? name : name + ".json";
  auto net = std::make_unique<gluon::SymbolBlock>(gluon::SymbolBlock::imports(file, {}, {}, device));
  std::vector<ArraySpec> inputs;
  for (const gluon::SymbolArray& input : net->inputs()) {
    inputs.push_back({input.shape, input.dtype, device});
    if (input.batch)
      inputs.back().shape[0] = batch;
  }
  return {std::move(net), std::make_unique<SoftmaxCrossEntropyLoss>(), std::move(inputs)};
}

}  // namespace

Network network_of(const std::string& name, std::int64_t batch, Device device) {
  if (name == "mlp")
    return made(mlp(), batch, device);
  if (name == "cnn-torch")
    return made(torch_cnn(), batch, device);
  return name == "cnn-tf" ? made(tf_cnn(), batch, device) : imported(name, batch, device);
}

graph::Graph forward_of(const Network& network) {
  graph::Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : network.inputs)
    inputs.push_back(tracer.input(spec));
  const autograd::PredictScope predicting;
  return tracer.trace([&] { return network.net->call(inputs); });
}

graph::Graph step_of(const Network& network) {
  const graph::Graph forward = forward_of(network);
  const bool tells_classes = network.inputs.size() == 1 && forward.outputs.size() == 1 &&
                             forward.values[forward.outputs[0]].spec.shape.ndim() == 2;
  require(tells_classes, [] { return "--train: the network does not turn one array into (N, classes)"; });
  const ArraySpec& input = network.inputs[0];
  const NDArray x = zeros(input.shape, {.dtype = input.dtype, .device = input.device});
  const NDArray labels =
      zeros({forward.values[forward.outputs[0]].spec.shape[0]}, {.dtype = int32, .device = input.device});
  gluon::Trainer trainer(network.net->collect_params(), gluon::optimizer::Adam());
  gluon::TrainStep step(*network.net, *network.loss, trainer, {.plan = {.optimise = false}});
  step(x, labels);
  return step.plan()->graph();
}

}  // namespace samples
