#pragma once

#include <string>
#include <string_view>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

namespace detail {
using ActivationFunction = NDArray (*)(const NDArray& x, SourceLocation site);
/// The function of that name, null for "". Throws ValueError that lists the names.
SLUICE_API ActivationFunction activation_function(std::string_view name);
}  // namespace detail

/// An elementwise function by name: "relu", "sigmoid", "tanh", "softrelu" (log(1 + exp(x))), "softsign", "log_sigmoid",
/// "mish", "gelu", "gelu_tanh", "silu" and "swish", which are one, "selu", "hard_swish", "relu6" and, with the numbers
/// that they have by name, "hard_sigmoid", "elu" and "leaky_relu" (Gluon's nn.Activation).
class SLUICE_API Activation : public Block {
 public:
  /// Throws ValueError for an unknown name.
  explicit Activation(std::string_view name);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  detail::ActivationFunction function_;
};

}  // namespace sluice::gluon::nn
