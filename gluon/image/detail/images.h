#pragma once

#include <sluice/ndarray/ndarray.h>

// What functions of images as arrays have in common.
namespace sluice::image::detail {

/// A batch (N, H, W, C) in which is reckoned, floating, and how what comes of it is given back.
struct Images {
  NDArray values;
  DType dtype;
  bool single;  // one image, without N

  /// Throws ShapeError and DTypeError naming `function`.
  static Images of(const char* function, const NDArray& x, SourceLocation site);
  /// And ShapeError for other than 1 or 3 channels.
  static Images colours_of(const char* function, const NDArray& x, SourceLocation site);

  std::int64_t count() const { return values.shape()[0]; }
  std::int64_t height() const { return values.shape()[1]; }
  std::int64_t width() const { return values.shape()[2]; }
  std::int64_t channels() const { return values.shape()[3]; }
  NDArray given_back(const NDArray& result, SourceLocation site) const;
};

/// Throws ShapeError unless x is (H, W, C) or (N, H, W, C), with pixels.
void check_images(const char* function, const NDArray& x);
void check_chance(const char* function, double p);
/// (N, 1, 1, 1) on the device and of the type of `images`: uniform within low to high.
NDArray numbers_for(const Images& images, double low, double high, SourceLocation site);

}  // namespace sluice::image::detail
