#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/more_pools.h>

namespace sluice::gluon::nn {

namespace {

sluice::Pool1DOptions window_of(const char* layer, std::int64_t size, const Pool1DOptions& o) {
  const std::int64_t strides = o.strides.value_or(size);
  require(size >= 1 && strides >= 1 && o.padding >= 0, [&] {
    return message(
        layer, ": pool_size ", size, " and strides ", strides, " must be >= 1, padding ", o.padding, " >= 0");
  });
  return {
      .kernel = size,
      .stride = strides,
      .pad = {o.padding},
      .ceil_mode = o.ceil_mode,
      .count_include_pad = o.count_include_pad};
}

const Size2D& checked_size(const char* layer, const Size2D& size) {
  require(size.height >= 1 && size.width >= 1, [&] {
    return message(layer, ": output_size (", size.height, ", ", size.width, ") must be >= 1");
  });
  return size;
}

std::int64_t checked_size(const char* layer, std::int64_t size) {
  require(size >= 1, [&] { return message(layer, ": output_size ", size, " must be >= 1"); });
  return size;
}

}  // namespace

MaxPool1D::MaxPool1D(std::int64_t pool_size, Pool1DOptions options)
    : window_(window_of("nn::MaxPool1D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, false));
}

AvgPool1D::AvgPool1D(std::int64_t pool_size, Pool1DOptions options)
    : window_(window_of("nn::AvgPool1D", pool_size, options)) {
  note_options(gluon::detail::pool_notes(pool_size, options, true));
}

NDArray MaxPool1D::forward(const NDArray& x) const {
  return max_pool1d(x, window_, call_site());
}

NDArray AvgPool1D::forward(const NDArray& x) const {
  return avg_pool1d(x, window_, call_site());
}

NDArray GlobalMaxPool1D::forward(const NDArray& x) const {
  return max_pool1d(x, {.global = true}, call_site());
}

NDArray GlobalAvgPool1D::forward(const NDArray& x) const {
  return avg_pool1d(x, {.global = true}, call_site());
}

NDArray GlobalMaxPool2D::forward(const NDArray& x) const {
  return max_pool2d(x, {.global = true}, call_site());
}

NDArray GlobalAvgPool2D::forward(const NDArray& x) const {
  return avg_pool2d(x, {.global = true}, call_site());
}

AdaptiveAvgPool2D::AdaptiveAvgPool2D(Size2D output_size)
    : output_size_(checked_size("nn::AdaptiveAvgPool2D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}

AdaptiveMaxPool2D::AdaptiveMaxPool2D(Size2D output_size)
    : output_size_(checked_size("nn::AdaptiveMaxPool2D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}

NDArray AdaptiveAvgPool2D::forward(const NDArray& x) const {
  return adaptive_avg_pool2d(x, output_size_.shape(), call_site());
}

NDArray AdaptiveMaxPool2D::forward(const NDArray& x) const {
  return adaptive_max_pool2d(x, output_size_.shape(), call_site());
}

AdaptiveAvgPool1D::AdaptiveAvgPool1D(std::int64_t output_size)
    : output_size_(checked_size("nn::AdaptiveAvgPool1D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}

AdaptiveMaxPool1D::AdaptiveMaxPool1D(std::int64_t output_size)
    : output_size_(checked_size("nn::AdaptiveMaxPool1D", output_size)) {
  note_options(OptionNotes().add("output_size", output_size));
}

NDArray AdaptiveAvgPool1D::forward(const NDArray& x) const {
  return adaptive_avg_pool1d(x, output_size_, call_site());
}

NDArray AdaptiveMaxPool1D::forward(const NDArray& x) const {
  return adaptive_max_pool1d(x, output_size_, call_site());
}

}  // namespace sluice::gluon::nn
