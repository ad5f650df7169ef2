#include <array>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::nn {

Dropout::Dropout(double rate) : rate_(rate) {
  require(rate >= 0 && rate <= 1, [&] { return message("nn::Dropout: rate ", rate, " is not within [0, 1]"); });
  note_options(OptionNotes().add("rate", rate));
}

NDArray Dropout::forward(const NDArray& x) const {
  return dropout(x, rate_, call_site());
}

DropPath::DropPath(double rate) : rate_(rate) {
  require(rate >= 0 && rate <= 1, [&] { return message("nn::DropPath: rate ", rate, " is not within [0, 1]"); });
  note_options(OptionNotes().add("rate", rate));
}

NDArray DropPath::forward(const NDArray& x) const {
  const int axes = sluice::detail::unseen_shape(x).ndim();
  require<ShapeError>(axes >= 1, [] { return "DropPath: x has no axis of samples"; });
  if (!autograd::is_training() || rate_ == 0)
    return x;
  const OriginScope here(call_site());
  NDArray first = x;  // an entry of each sample
  for (int axis = 1; axis < axes; ++axis)
    first = first.slice(axis, 0, 1);
  const std::array<NDArray, 2> one_and_shape{ones({1}, {.device = x.device()}), first};
  const NDArray each = invoke(*find_operator("broadcast_like"), one_and_shape, {}, call_site())[0];
  const double scale = rate_ < 1 ? 1 / (1 - rate_) : 0;
  return where(dropout(each, rate_, call_site()) > 0, x * scale, 0);
}

NDArray Flatten::forward(const NDArray& x) const {
  return x.flatten(call_site());
}

Lambda::Lambda(std::function<NDArray(const NDArray&)> function) : function_(std::move(function)) {
  require(static_cast<bool>(function_), [] { return "nn::Lambda: the function is empty"; });
}

}  // namespace sluice::gluon::nn
