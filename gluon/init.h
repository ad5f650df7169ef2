#pragma once

#include <functional>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

/// Initialisers: what a parameter holds before training. Random ones draw from the engine's Philox generator on the
/// array's own device, so one seed gives the same numbers on CPU and GPU.
namespace sluice::gluon::init {

/// Anything that writes an array in place; a lambda will do. An empty one means "whatever initialize() was given".
/// It runs with recording off, does not block, and sees the final shape (float32 or the parameter's type).
using Initializer = std::function<void(const NDArray& array)>;

/// Zeros.
class SLUICE_API Zero {
 public:
  void operator()(const NDArray& array) const;
};

/// Ones.
class SLUICE_API One {
 public:
  void operator()(const NDArray& array) const;
};

/// One value everywhere.
class SLUICE_API Constant {
 public:
  explicit Constant(double value) : value_(value) {}
  void operator()(const NDArray& array) const;

 private:
  double value_;
};

/// Uniform in [-scale, scale). The default of initialize(), as in MXNet.
class SLUICE_API Uniform {
 public:
  /// Throws ValueError unless scale is finite and not negative.
  explicit Uniform(double scale = 0.07);
  void operator()(const NDArray& array) const;

 private:
  double scale_;
};

/// Normal with mean 0 and standard deviation `sigma`.
class SLUICE_API Normal {
 public:
  /// Throws ValueError unless sigma is finite and not negative.
  explicit Normal(double sigma = 0.01);
  void operator()(const NDArray& array) const;

 private:
  double sigma_;
};

/// Of Xavier; the names are MXNet's.
struct XavierOptions {
  std::string rnd_type = "uniform";  // or "gaussian"
  std::string factor_type = "avg";   // or "in", "out"
  double magnitude = 3;
};

/// Glorot and Bengio, 2010, as MXNet defines it: scale = sqrt(magnitude / factor), where factor is the number of
/// inputs a unit sees ("in": extent 1 times the window), of outputs ("out": extent 0 times the window) or their
/// mean ("avg"); uniform in [-scale, scale) or normal with deviation scale.
class SLUICE_API Xavier {
 public:
  /// Throws ValueError for unknown names and a magnitude that is not positive.
  explicit Xavier(XavierOptions options = {});
  /// Throws ShapeError for an array of fewer than two axes.
  void operator()(const NDArray& array) const;

 private:
  XavierOptions options_;
};

}  // namespace sluice::gluon::init
