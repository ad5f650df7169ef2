#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/model_zoo/parts.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::gluon::model_zoo {

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, std::string activation, Gate gate)
    : first_(child("fc1", nn::Conv2D(squeezed, 1, {.activation = std::move(activation)}))),
      second_(child("fc2", nn::Conv2D(channels, 1))),
      gate_(gate) {}

NDArray SqueezeExcitation::forward(const NDArray& x) const {
  const OriginScope here(call_site());
  const NDArray means = mean(x, {2, 3}, true);
  return x * gate_(second_(first_(means)), call_site());
}

Shape height_and_width(const NDArray& x) {
  const Shape one = x.slice(0, 0, 1).shape();
  return {one[2], one[3]};
}

Shape image_size(const NDArray& x, const char* model) {
  const Shape& shape = sluice::detail::unseen_shape(x);
  require<ShapeError>(shape.ndim() == 4, [&] { return message(model, ": takes (N, C, H, W), not ", shape); });
  return height_and_width(x);
}

}  // namespace sluice::gluon::model_zoo
