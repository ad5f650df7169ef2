#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/gluon/data/vision/image_size.h>
#include <sluice/gluon/data/vision/transforms.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::data::vision::transforms {

/// Left and right change places with probability p; elements of any type.
class SLUICE_API RandomFlipLeftRight {
 public:
  /// Throws ValueError unless p is within 0 to 1.
  explicit RandomFlipLeftRight(double p = 0.5);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  double p_;
};

/// Top and bottom change places with probability p; elements of any type.
class SLUICE_API RandomFlipTopBottom {
 public:
  /// Throws ValueError unless p is within 0 to 1.
  explicit RandomFlipTopBottom(double p = 0.5);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  double p_;
};

/// Of RandomCrop.
struct RandomCropOptions {
  std::int64_t pad = 0;  // pixels added on each side before
  double pad_value = 0;  // of their channels
  InterpolationOptions interpolation = {};
};

/// A part of that size, anywhere in the image. A side that is too short, padding included, is taken whole and
/// stretched.
class SLUICE_API RandomCrop {
 public:
  /// Throws ValueError for sides below 1 and a padding below 0.
  explicit RandomCrop(ImageSize size, const RandomCropOptions& options = {});
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

/// From a least to a largest number.
struct NumberRange {
  double low = 0, high = 0;
};

/// Of RandomResizedCrop.
struct RandomResizedCropOptions {
  NumberRange scale = {0.08, 1};        // part of the image's area
  NumberRange ratio = {0.75, 4.0 / 3};  // width by height; its logarithm is drawn
  InterpolationOptions interpolation = {};
};

/// A part of random area and shape, anywhere in the image, in that size (torchvision's algorithm: after ten draws that
/// do not fit, the largest part in the middle whose ratio is within the range).
class SLUICE_API RandomResizedCrop {
 public:
  /// Throws ValueError for sides below 1 and ranges that are empty, not positive or, of scale, above 1.
  explicit RandomResizedCrop(ImageSize size, const RandomResizedCropOptions& options = {});
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

/// Rotate by an angle within the limits, with probability p.
class SLUICE_API RandomRotation {
 public:
  /// Throws ValueError for limits that are empty or not finite, p outside 0 to 1, and as Rotate.
  explicit RandomRotation(NumberRange degrees, const RotateOptions& options = {}, double p = 1);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  NumberRange degrees_;
  RotateOptions options_;
  double p_;
};

/// Brightness times, contrast with the image's mean grey times, saturation times a factor within 1 - x to 1 + x (from 0
/// on), hue turned by up to `hue` of half a circle in the YIQ space, in a random order (Gluon's and torchvision's
/// RandomColorJitter; hue is MXNet's). All is reckoned as one function of the colours: nothing is rounded or cut off
/// in between. Images of 1 channel are grey, 3 are red, green, blue.
class SLUICE_API RandomColorJitter {
 public:
  /// Throws ValueError for numbers below 0 or not finite, and a hue above 1.
  explicit RandomColorJitter(double brightness = 0, double contrast = 0, double saturation = 0, double hue = 0);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  std::array<double, 4> most_;
};

/// RandomColorJitter's brightness alone.
class SLUICE_API RandomBrightness : public RandomColorJitter {
 public:
  explicit RandomBrightness(double brightness) : RandomColorJitter(brightness) {}
};
/// RandomColorJitter's contrast alone.
class SLUICE_API RandomContrast : public RandomColorJitter {
 public:
  explicit RandomContrast(double contrast) : RandomColorJitter(0, contrast) {}
};
/// RandomColorJitter's saturation alone.
class SLUICE_API RandomSaturation : public RandomColorJitter {
 public:
  explicit RandomSaturation(double saturation) : RandomColorJitter(0, 0, saturation) {}
};
/// RandomColorJitter's hue alone.
class SLUICE_API RandomHue : public RandomColorJitter {
 public:
  explicit RandomHue(double hue) : RandomColorJitter(0, 0, 0, hue) {}
};

/// Adds light along the principal components of ImageNet's colours, each times a normal number of deviation `alpha`
/// (Krizhevsky, Sutskever and Hinton, 2012), for colours from 0 to 255. Images of 3 channels.
class SLUICE_API RandomLighting {
 public:
  /// Throws ValueError for an alpha below 0 or not finite.
  explicit RandomLighting(double alpha);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  double alpha_;
};

/// All channels become the brightness with probability p.
class SLUICE_API RandomGray {
 public:
  /// Throws ValueError unless p is within 0 to 1.
  explicit RandomGray(double p = 0.5);
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  double p_;
};

/// Another transform, which keeps shape and type, with probability p.
class SLUICE_API RandomApply {
 public:
  /// Throws ValueError unless p is within 0 to 1.
  template <class T>
  requires(!std::same_as<T, RandomApply> && SampleTransform<T>)  // in this order: else copying asks for itself
      explicit RandomApply(T transform, double p = 0.5)
      : transform_(std::move(transform)), p_(p) {
    check_chance();
  }
  /// Throws ShapeError where the transform would change shape or type.
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const;

 private:
  void check_chance() const;

  AnyTransform transform_;
  double p_;
};

}  // namespace sluice::gluon::data::vision::transforms
