#include <sluice/engine/error.h>
#include <sluice/gluon/nn/rearrange.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/own_memory.h>
#include <sluice/operator/view/blocks.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::gluon::nn {

ReflectionPad2D::ReflectionPad2D(std::int64_t padding) : padding_(padding) {
  require(padding >= 0, [&] { return message("nn::ReflectionPad2D: padding ", padding, " is negative"); });
  note_options(OptionNotes().add("padding", padding));
}

NDArray ReflectionPad2D::forward(const NDArray& x) const {
  const Shape& shape = sluice::detail::unseen_shape(x);
  require<ShapeError>(
      shape.ndim() == 4, [&] { return message("nn::ReflectionPad2D: x must be (N, C, H, W), not ", shape); });
  return pad(x, {{0, 0}, {0, 0}, {padding_, padding_}, {padding_, padding_}}, PadMode::reflect, 0, call_site());
}

PixelShuffle2D::PixelShuffle2D(std::int64_t factor) : factor_(factor) {
  require(factor >= 1, [&] { return message("nn::PixelShuffle2D: factor ", factor, " is below 1"); });
  note_options(OptionNotes().add("factor", factor));
}

NDArray PixelShuffle2D::forward(const NDArray& x) const {
  return pixel_shuffle(x, factor_, call_site());
}

namespace {
// The channels that are left, C.
std::int64_t channels_left(const char* layer, const Shape& shape, int axes, std::int64_t factor) {
  require<ShapeError>(shape.ndim() == axes && shape[1] % factor == 0, [&] {
    return message(layer, ": x must have ", axes, " axes and channels that ", factor, " divides, not ", shape);
  });
  return shape[1] / factor;
}

// What the batch becomes: as many as are left, unless nothing is.
std::int64_t batch_of(const NDArray& x) {
  const Shape& shape = sluice::detail::unseen_shape(x);
  std::int64_t others = 1;
  for (int axis = 1; axis < shape.ndim(); ++axis)
    others = others == 0 ? 0 : shape[axis];
  return others == 0 ? x.shape()[0] : -1;
}

// Of x without channels any factor is one; throws ShapeError where the product does not fit.
std::int64_t magnified(std::int64_t extent, std::int64_t factor) {
  return Shape{extent, factor}.size();
}
}  // namespace

PixelShuffle1D::PixelShuffle1D(std::int64_t factor) : factor_(factor) {
  require(factor >= 1, [&] { return message("nn::PixelShuffle1D: factor ", factor, " is below 1"); });
  note_options(OptionNotes().add("factor", factor));
}

NDArray PixelShuffle1D::forward(const NDArray& x) const {
  const SourceLocation site = call_site();
  const Shape& shape = sluice::detail::unseen_shape(x);
  const std::int64_t channels = channels_left("nn::PixelShuffle1D", shape, 3, factor_), width = shape[2];
  const std::int64_t batch = batch_of(x);
  const NDArray apart = x.reshape({batch, channels, factor_, width}, site);
  const NDArray y = apart.transpose({0, 1, 3, 2}, site).reshape({batch, channels, magnified(width, factor_)}, site);
  return sluice::detail::own_memory(y, x, site);
}

PixelShuffle3D::PixelShuffle3D(Size3D factor) : factor_(factor) {
  require(factor.is_at_least(1), [&] { return message("nn::PixelShuffle3D: factor ", factor.shape(), " is below 1"); });
  static_cast<void>(factor.shape().size());  // says that it fits
  note_options(OptionNotes().add("factor", factor));
}

NDArray PixelShuffle3D::forward(const NDArray& x) const {
  const SourceLocation site = call_site();
  const auto [depth, height, width] = factor_;
  const Shape& shape = sluice::detail::unseen_shape(x);
  const std::int64_t channels = channels_left("nn::PixelShuffle3D", shape, 5, depth * height * width);
  const std::int64_t d = shape[2], h = shape[3], w = shape[4];
  const std::int64_t batch = batch_of(x);
  const NDArray apart = x.reshape({batch, channels, depth, height, width, d, h, w}, site);
  const NDArray tiled = apart.transpose({0, 1, 5, 2, 6, 3, 7, 4}, site);
  const NDArray y =
      tiled.reshape({batch, channels, magnified(d, depth), magnified(h, height), magnified(w, width)}, site);
  return sluice::detail::own_memory(y, x, site);
}

}  // namespace sluice::gluon::nn
