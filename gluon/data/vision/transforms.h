#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/gluon/data/vision/image_size.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/operator.h>

/// Gluon's transforms of images under its names. They take images (height, width, channels), so that ToTensor stands
/// behind them; where they reckon, of uint8, whose results are rounded and kept within 0 to 255, or float32. All throw
/// ShapeError and DTypeError for other samples, in output_spec().
namespace sluice::gluon::data::vision::transforms {

using data::Compose;
using vision::Normalize;
using vision::RotateOptions;
using vision::ToTensor;

/// Elements of another type, converted as by NDArray::astype, of arrays of any shape, uint8 or float32.
class SLUICE_API Cast {
 public:
  explicit Cast(DType dtype = float32) : dtype_(dtype) {}
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  DType dtype_;
};

/// How Resize works.
struct ResizeTransformOptions {
  /// The shorter side becomes `size`, which must be one number; the longer one follows, rounded down.
  bool keep_ratio = false;
  InterpolationOptions interpolation = {};
};

/// Images of another size.
class SLUICE_API Resize {
 public:
  /// Throws ValueError for sides below 1 and for keep_ratio with two different ones.
  explicit Resize(ImageSize size, const ResizeTransformOptions& options = {});
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  ImageSize size_;
  ResizeTransformOptions options_;
};

/// The middle of an image. A side that is too short is taken whole and stretched.
class SLUICE_API CenterCrop {
 public:
  /// Throws ValueError for sides below 1.
  explicit CenterCrop(ImageSize size, const InterpolationOptions& interpolation = {});
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  ImageSize size_;
  InterpolationOptions interpolation_;
};

/// Part of an image, from column x and row y on, resized if asked for.
class SLUICE_API CropResize {
 public:
  /// Throws ValueError for a corner below 0 and sides below 1.
  CropResize(
      std::int64_t x,
      std::int64_t y,
      std::int64_t width,
      std::int64_t height,
      std::optional<ImageSize> size = {},
      const InterpolationOptions& interpolation = {});
  /// Throws ShapeError for an image that ends before that part does.
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  std::int64_t x_, y_, width_, height_;
  std::optional<ImageSize> size_;
  InterpolationOptions interpolation_;
};

/// An image turned around its middle, counter-clockwise, in a frame of the same size; black where nothing was. Places
/// are those of torchvision's rotate, bilinear.
class SLUICE_API Rotate {
 public:
  /// Throws ValueError for an angle that is not finite and for both options at once.
  explicit Rotate(double degrees, const RotateOptions& options = {});
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  double degrees_;
  RotateOptions options_;
};

/// A function `f(in, out)` of contiguous samples as a transform that keeps shape and type; or `f(in, out, random)`,
/// which is random. With `spec`, a function of an ArraySpec, the result has the shape and type that this gives.
template <class F, class S = std::identity>
class Lambda {
 public:
  explicit Lambda(F function, S spec = {}) : function_(std::move(function)), spec_(std::move(spec)) {}
  ArraySpec output_spec(const ArraySpec& in) const { return spec_(in); }
  void operator()(const TensorView& in, const TensorView& out)
      const requires std::is_invocable_v<const F&, const TensorView&, const TensorView&> {
    function_(in, out);
  }
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random)
      const requires std::is_invocable_v<const F&, const TensorView&, const TensorView&, SampleRandom&> {
    function_(in, out, random);
  }

 private:
  F function_;
  S spec_;
};

/// Any transform behind one type; copies share it.
class AnyTransform {
 public:
  template <class T>
  requires(!std::same_as<T, AnyTransform> && SampleTransform<T>)  // in this order: else copying asks for itself
      AnyTransform(T transform)                                   // NOLINT: every transform is one
      : node_(std::make_shared<data::detail::TransformOf<T>>(std::move(transform))) {}
  ArraySpec output_spec(const ArraySpec& in) const { return node_->output_spec(in); }
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
    node_->apply(in, out, random);
  }

 private:
  std::shared_ptr<const data::detail::TransformNode> node_;
};

/// One transform after another, of a list that is made while the program runs: what Compose is of a list that stands in
/// it.
class SLUICE_API TransformList {
 public:
  /// Throws ValueError for an empty list.
  explicit TransformList(std::vector<AnyTransform> transforms);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  std::vector<AnyTransform> transforms_;
};

}  // namespace sluice::gluon::data::vision::transforms
