#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/pool.h>

namespace sluice::gluon::nn {

namespace {

PoolOptions window_of(const char* layer, const Size2D& size, const Pool2DOptions& options) {
  const Size2D strides = options.strides.value_or(size);
  require(size.height >= 1 && size.width >= 1 && strides.height >= 1 && strides.width >= 1, [&] {
    return message(
        layer,
        ": pool_size (",
        size.height,
        ", ",
        size.width,
        ") and strides (",
        strides.height,
        ", ",
        strides.width,
        ") must be >= 1");
  });
  require(options.padding.is_valid(), [&] { return message(layer, ": padding is ", options.padding.shape()); });
  return {
      .kernel = size.shape(),
      .stride = strides.shape(),
      .pad = options.padding.shape(),
      .ceil_mode = options.ceil_mode,
      .count_include_pad = options.count_include_pad};
}

}  // namespace

MaxPool2D::MaxPool2D(Size2D pool_size, Pool2DOptions options)
    : window_(window_of("nn::MaxPool2D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, false));
}

AvgPool2D::AvgPool2D(Size2D pool_size, Pool2DOptions options)
    : window_(window_of("nn::AvgPool2D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, true));
}

NDArray MaxPool2D::forward(const NDArray& x) const {
  return max_pool2d(x, window_, call_site());
}

NDArray AvgPool2D::forward(const NDArray& x) const {
  return avg_pool2d(x, window_, call_site());
}

}  // namespace sluice::gluon::nn
