#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/gluon/networks.h"

namespace sluice::test {

/// A network under test, with an example of what it takes.
struct ExportCase {
  std::string name;
  std::function<std::shared_ptr<gluon::Block>()> make;
  std::vector<Shape> inputs;
  bool batch = true;         // takes any batch
  bool has_gradient = true;  // may be recorded
};

/// A block of its own parameters, several inputs and outputs, a constant of its own, a child.
class TwoArms : public gluon::Block {
 public:
  TwoArms()
      : body_(child("body", gluon::nn::Dense(4, {.activation = "tanh"}))),
        scale_(parameter("scale", {.shape = {4}, .init = gluon::init::One()})),
        steps_(array<float>({0.5, 1, 1.5, 2})) {}

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 2);
    const NDArray hidden = body_(inputs[0]) * scale_.data();
    return {
        (hidden + inputs[1]) * steps_.to(inputs[0].device()), softmax(inputs[1]).reshape({-1, 2, 2}), scale_.data()};
  }

 private:
  gluon::Child<gluon::nn::Dense> body_;
  Parameter& scale_;
  NDArray steps_;
};

/// Writes into what it made, which the tape does not allow.
class WritesInPlace : public gluon::Block {
 protected:
  NDArray forward(const NDArray& x) const override {
    NDArray sums = x * 2.0;
    sums.slice(1, 0, 2).assign(x.slice(1, 2, 4));
    sums += x;
    return sums.T().reshape({-1, 5}).T();
  }
};

/// Reads the number of rows out of the shape: no other batch computes the same.
class FixedRows : public gluon::Block {
 protected:
  NDArray forward(const NDArray& x) const override {
    return x + arange(0, static_cast<double>(x.shape()[0]), 1, {.device = x.device()}).reshape({-1, 1});
  }
};

template <class Layer, class... Arguments>
std::function<std::shared_ptr<gluon::Block>()> maker(Arguments... arguments) {
  return [=] { return std::make_shared<Layer>(arguments...); };
}

inline std::function<std::shared_ptr<gluon::Block>()> network(const std::string& name) {
  return [=] { return std::make_shared<gluon::nn::Sequential>(sample_network(name)); };
}

/// All layers, networks of samples, and blocks of one's own.
inline std::vector<ExportCase> export_cases() {
  namespace nn = gluon::nn;
  std::vector<ExportCase> cases{
      {"mlp", network("mlp"), {{3, 1, 14, 14}}},
      {"torch", network("torch"), {{2, 1, 14, 14}}},
      {"tf", network("tf"), {{2, 1, 14, 14}}},
      {"dense without flattening",
       maker<nn::Dense>(5, nn::DenseOptions{.use_bias = false, .flatten = false}),
       {{2, 3, 4}}},
      {"convolution",
       maker<nn::Conv2D>(4, 3, nn::Conv2DOptions{.strides = 2, .padding = 1, .dilation = 2, .groups = 2}),
       {{2, 4, 9, 8}}},
      {"max pool", maker<nn::MaxPool2D>(2), {{2, 3, 6, 6}}},
      {"average pool", maker<nn::AvgPool2D>(3), {{2, 3, 7, 6}}},
      {"batch norm", maker<nn::BatchNorm>(), {{4, 3, 5, 5}}},
      {"batch norm of features",
       maker<nn::BatchNorm>(nn::BatchNormOptions{.axis = -1, .scale = false}),
       {{4, 6}},
       true,
       false},
      {"layer norm", maker<nn::LayerNorm>(), {{4, 3, 5}}},
      {"layer norm of channels", maker<nn::LayerNorm>(nn::LayerNormOptions{.axis = 1, .center = false}), {{4, 3, 5}}},
      {"rms norm", maker<nn::RMSNorm>(), {{4, 6}}},
      {"group norm", maker<nn::GroupNorm>(nn::GroupNormOptions{.num_groups = 2}), {{4, 6, 5}}},
      {"instance norm", maker<nn::InstanceNorm>(), {{4, 3, 5, 2}}},
      {"instance norm of features", maker<nn::InstanceNorm>(nn::InstanceNormOptions{.axis = -1}), {{4, 5, 3}}},
      {"dropout", maker<nn::Dropout>(0.5), {{4, 6}}},
      {"prelu", maker<nn::PReLU>(nn::PReLUOptions{.in_channels = 3}), {{4, 3, 5}}},
      {"flatten", maker<nn::Flatten>(), {{4, 3, 2}}},
      {"lambda",
       [] { return std::make_shared<nn::Lambda>([](const NDArray& x) { return log_softmax(x); }); },
       {{4, 7}}},
      {"two arms", maker<TwoArms>(), {{3, 5}, {3, 4}}},
      {"writes in place", maker<WritesInPlace>(), {{3, 5}}, true, false},
      {"fixed rows", maker<FixedRows>(), {{3, 5}}, false},
      {"cross entropy", maker<gluon::loss::SoftmaxCrossEntropyLoss>(), {{4, 6}, {4, 6}}},
      {"squares", maker<gluon::loss::L2Loss>(), {{4, 6}, {4, 6}}},
  };
  for (const char* name : {"relu", "sigmoid", "tanh", "softrelu", "softsign", "gelu", "silu", "mish", "elu"})
    cases.push_back({name, maker<nn::Activation>(std::string(name)), {{4, 6}}});
  return cases;
}

inline std::vector<std::string> bytes_of(const Arrays& arrays) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays) {
    const NDArray here = array.to(cpu()).contiguous();
    std::string bytes(static_cast<std::size_t>(here.size()) * size_of(here.dtype()), '\0');
    here.read_out(bytes.data(), here.dtype(), here.size());
    all.push_back(message(array.dtype(), ' ', array.shape(), ' ') + bytes);
  }
  return all;
}

inline Arrays examples(const ExportCase& one, std::int64_t batch, Device device, int start = 0) {
  Arrays inputs;
  for (Shape shape : one.inputs) {
    shape[0] = batch;
    inputs.push_back(pattern_array(shape, start++, device));
  }
  if (one.name == "cross entropy")
    inputs[1] = argmax(inputs[1], 1);
  return inputs;
}

}  // namespace sluice::test
