#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/nn/basic.h>

namespace sluice::gluon::nn {

Dropout::Dropout(double rate) : rate_(rate) {
  require(rate >= 0 && rate <= 1, [&] { return message("nn::Dropout: rate ", rate, " is not within [0, 1]"); });
}

NDArray Dropout::forward(const NDArray& x) const {
  return dropout(x, rate_, call_site());
}

NDArray Flatten::forward(const NDArray& x) const {
  return x.flatten(call_site());
}

Lambda::Lambda(std::function<NDArray(const NDArray&)> function) : function_(std::move(function)) {
  require(static_cast<bool>(function_), [] { return "nn::Lambda: the function is empty"; });
}

}  // namespace sluice::gluon::nn
