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
    {"gelu", gelu},
    {"silu", silu},
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
}

NDArray Activation::forward(const NDArray& x) const {
  return function_(x, call_site());
}

}  // namespace sluice::gluon::nn
