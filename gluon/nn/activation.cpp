#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/nn/activation.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::nn {

namespace {

constexpr std::pair<std::string_view, detail::ActivationFunction> k_activations[] = {
    {"relu", relu},
    {"sigmoid", sigmoid},
    {"tanh", tanh},
    {"softrelu", softplus},
    {"softsign", softsign},
    {"log_sigmoid", log_sigmoid},
    {"mish", mish},
    {"gelu", gelu},
    {"gelu_tanh", gelu_tanh},
    {"silu", silu},
    {"swish", silu},
    {"selu", selu},
    {"hard_swish", hard_swish},
    {"relu6", relu6},
    {"hard_sigmoid", [](const NDArray& x, SourceLocation site) { return hard_sigmoid(x, 0.2, 0.5, site); }},
    {"elu", [](const NDArray& x, SourceLocation site) { return elu(x, 1, site); }},
    {"leaky_relu", [](const NDArray& x, SourceLocation site) { return leaky_relu(x, 0.01, site); }},
};

std::string known_names() {
  std::string names;
  for (const auto& [name, function] : k_activations)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace

detail::ActivationFunction detail::activation_function(std::string_view name) {
  if (name.empty())
    return nullptr;
  for (const auto& [known, function] : k_activations) {
    if (known == name)
      return function;
  }
  throw ValueError(message("activation '", name, "' is not known; there are ", known_names()));
}

Activation::Activation(std::string_view name) : function_(detail::activation_function(name)) {
  require(function_ != nullptr, [] { return "nn::Activation: there are " + known_names(); });
  note_options(OptionNotes().add("activation", name));
}

NDArray Activation::forward(const NDArray& x) const {
  return function_(x, call_site());
}

}  // namespace sluice::gluon::nn
