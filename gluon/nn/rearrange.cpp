#include <sluice/engine/error.h>
#include <sluice/gluon/nn/rearrange.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/view/blocks.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::gluon::nn {

ReflectionPad2D::ReflectionPad2D(std::int64_t padding) : padding_(padding) {
  require(padding >= 0, [&] { return message("nn::ReflectionPad2D: padding ", padding, " is negative"); });
}

NDArray ReflectionPad2D::forward(const NDArray& x) const {
  const Shape& shape = sluice::detail::unseen_shape(x);
  require<ShapeError>(
      shape.ndim() == 4, [&] { return message("nn::ReflectionPad2D: x must be (N, C, H, W), not ", shape); });
  return pad(x, {{0, 0}, {0, 0}, {padding_, padding_}, {padding_, padding_}}, PadMode::reflect, 0, call_site());
}

PixelShuffle2D::PixelShuffle2D(std::int64_t factor) : factor_(factor) {
  require(factor >= 1, [&] { return message("nn::PixelShuffle2D: factor ", factor, " is below 1"); });
}

NDArray PixelShuffle2D::forward(const NDArray& x) const {
  return pixel_shuffle(x, factor_, call_site());
}

}  // namespace sluice::gluon::nn
