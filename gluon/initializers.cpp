#include <algorithm>
#include <cmath>
#include <regex>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/init.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/linalg/decompositions.h>
#include <sluice/operator/linalg/products.h>
#include <sluice/operator/random/distributions.h>
#include <sluice/operator/random/random.h>

namespace sluice::gluon::init {

namespace {

XavierOptions as_xavier(const MSRAPreluOptions& options) {
  require(std::isfinite(options.slope), [&] {
    return message("init::MSRAPrelu: slope is ", options.slope, ", it must be finite");
  });
  return {
      .rnd_type = "gaussian", .factor_type = options.factor_type, .magnitude = 2 / (1 + options.slope * options.slope)};
}

}  // namespace

MSRAPrelu::MSRAPrelu(MSRAPreluOptions options) : Xavier(as_xavier(options)) {}

Orthogonal::Orthogonal(OrthogonalOptions options) : options_(std::move(options)) {
  require(std::isfinite(options_.scale), [&] {
    return message("init::Orthogonal: scale is ", options_.scale, ", it must be finite");
  });
  require(options_.rand_type == "normal" || options_.rand_type == "uniform", [&] {
    return message("init::Orthogonal: rand_type is '", options_.rand_type, "', it can be 'normal' or 'uniform'");
  });
}

void Orthogonal::operator()(const NDArray& array) const {
  const Shape& shape = array.shape();
  require<ShapeError>(shape.ndim() >= 2, [&] {
    return message("init::Orthogonal needs at least two axes (outputs, inputs, ...), the array has shape ", shape);
  });
  if (shape.size() == 0)
    return;
  const std::int64_t rows = shape[0], columns = shape.size() / rows;
  const ArrayOptions drawn_as{.dtype = array.dtype() == float64 ? float64 : float32, .device = array.device()};
  const Shape tall{std::max(rows, columns), std::min(rows, columns)};
  const Qr factors = qr(
      options_.rand_type == "normal" ? random::normal(0, 1, tall, drawn_as) : random::uniform(-1, 1, tall, drawn_as));
  const NDArray signs = where(diagonal(factors.r) < 0, full({tall[1]}, -options_.scale, drawn_as), options_.scale);
  const NDArray q = factors.q * signs;
  copy_into((rows < columns ? q.T() : q).reshape(shape), array);
}

TruncNorm::TruncNorm(double mean, double stdev) : mean_(mean), stdev_(stdev) {
  require(std::isfinite(mean) && std::isfinite(stdev) && stdev >= 0, [&] {
    return message("init::TruncNorm: ", mean, " and ", stdev, " must be finite, and the deviation not negative");
  });
}

void TruncNorm::operator()(const NDArray& array) const {
  if (stdev_ == 0)
    return fill(array, mean_);
  const ArrayOptions drawn_as{.dtype = array.dtype() == float64 ? float64 : float32, .device = array.device()};
  copy_into(
      random::truncated_normal(mean_, stdev_, mean_ - 2 * stdev_, mean_ + 2 * stdev_, array.shape(), drawn_as), array);
}

void Bilinear::operator()(const NDArray& array) const {
  const Shape& shape = array.shape();
  require<ShapeError>(shape.ndim() == 4 && shape[2] == shape[3], [&] {
    return message("init::Bilinear needs weights (C, 1, k, k), the array has shape ", shape);
  });
  const std::int64_t size = shape[2];
  const double factor = std::ceil(static_cast<double>(size) / 2);
  const double center = (2 * factor - 1 - std::fmod(factor, 2)) / (2 * factor);
  std::vector<double> values;
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < size; ++x) {
      values.push_back(
          (1 - std::abs(static_cast<double>(y) / factor - center)) *
          (1 - std::abs(static_cast<double>(x) / factor - center)));
    }
  }
  copy_into(sluice::array(values, {1, 1, size, size}, array.device()).astype(array.dtype()).broadcast_to(shape), array);
}

void LSTMBias::operator()(const NDArray& array) const {
  const Shape& shape = array.shape();
  require<ShapeError>(shape.ndim() == 1 && shape[0] % 4 == 0, [&] {
    return message("init::LSTMBias needs a bias (4 * hidden,), the array has shape ", shape);
  });
  const std::int64_t hidden = shape[0] / 4;
  fill(array, 0.0);
  fill(array.slice(0, hidden, 2 * hidden), forget_bias_);
}

Mixed::Mixed(std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    require(part.init != nullptr, [&] {
      return message("init::Mixed: the pattern \"", part.pattern, "\" has no initialiser");
    });
    try {
      const std::regex pattern(part.pattern);
    } catch (const std::regex_error& error) {
      throw ValueError(message("init::Mixed: \"", part.pattern, "\" is no regular expression: ", error.what()));
    }
  }
}

const Initializer& Mixed::of(const std::string& name) const {
  for (const Part& part : parts_) {
    if (std::regex_search(name, std::regex(part.pattern)))
      return part.init;
  }
  throw ValueError(message("init::Mixed: no pattern matches \"", name, "\"; \"\" as the last one matches all"));
}

}  // namespace sluice::gluon::init
