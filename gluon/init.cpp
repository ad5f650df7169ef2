#include <cmath>
#include <utility>

#include <sluice/gluon/init.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/random/random.h>

namespace sluice::gluon::init {

namespace {

void require_spread(double spread, const char* what) {
  require(std::isfinite(spread) && spread >= 0, [&] {
    return message(what, ": the spread ", spread, " is not a finite number >= 0");
  });
}

// Drawn as float32 where the array's type is narrower: the numbers do not depend on it then, but for rounding.
ArrayOptions drawn_as(const NDArray& array) {
  return {.dtype = array.dtype() == float64 ? float64 : float32, .device = array.device()};
}

void fill_uniform(const NDArray& array, double scale) {
  copy_into(random::uniform(-scale, scale, array.shape(), drawn_as(array)), array);
}

void fill_normal(const NDArray& array, double sigma) {
  copy_into(random::normal(0, sigma, array.shape(), drawn_as(array)), array);
}

}  // namespace

void Zero::operator()(const NDArray& array) const {
  fill(array, 0.0);
}

void One::operator()(const NDArray& array) const {
  fill(array, 1.0);
}

void Constant::operator()(const NDArray& array) const {
  fill(array, value_);
}

Uniform::Uniform(double scale) : scale_(scale) {
  require_spread(scale, "init::Uniform");
}

void Uniform::operator()(const NDArray& array) const {
  fill_uniform(array, scale_);
}

Normal::Normal(double sigma) : sigma_(sigma) {
  require_spread(sigma, "init::Normal");
}

void Normal::operator()(const NDArray& array) const {
  fill_normal(array, sigma_);
}

Xavier::Xavier(XavierOptions options) : options_(std::move(options)) {
  require(options_.rnd_type == "uniform" || options_.rnd_type == "gaussian", [&] {
    return message("init::Xavier: rnd_type is '", options_.rnd_type, "', it can be 'uniform' or 'gaussian'");
  });
  require(options_.factor_type == "avg" || options_.factor_type == "in" || options_.factor_type == "out", [&] {
    return message("init::Xavier: factor_type is '", options_.factor_type, "', it can be 'avg', 'in' or 'out'");
  });
  require(std::isfinite(options_.magnitude) && options_.magnitude > 0, [&] {
    return message("init::Xavier: magnitude is ", options_.magnitude, ", it must be a finite number > 0");
  });
}

void Xavier::operator()(const NDArray& array) const {
  const Shape& shape = array.shape();
  require<ShapeError>(shape.ndim() >= 2, [&] {
    return message("init::Xavier needs at least two axes (outputs, inputs, ...), the array has shape ", shape);
  });
  double window = 1;
  for (int axis = 2; axis < shape.ndim(); ++axis)
    window *= static_cast<double>(shape[axis]);
  const double fan_in = static_cast<double>(shape[1]) * window;
  const double fan_out = static_cast<double>(shape[0]) * window;
  const double factor = options_.factor_type == "avg"  ? (fan_in + fan_out) / 2
                        : options_.factor_type == "in" ? fan_in
                                                       : fan_out;
  if (factor == 0)
    return;  // an array without elements
  const double scale = std::sqrt(options_.magnitude / factor);
  if (options_.rnd_type == "uniform") {
    fill_uniform(array, scale);
  } else {
    fill_normal(array, scale);
  }
}

}  // namespace sluice::gluon::init
