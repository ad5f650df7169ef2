#pragma once

#include <cmath>
#include <cstdint>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/update/rates.h>
#include <sluice/operator/update/trusted.h>

// Adafactor as the kernels see it. It keeps means of rows and of columns, so that no loop over single elements does it:
// rows and columns are added up, then directions squared, then the step gone. All sums are made by strips of a weight,
// which are cut by its shape: the same bits however many there are to add.
namespace sluice::detail {

/// A weight as matrices one behind the other, in strips of some of the rows of one, or of several small ones.
struct Strips {
  static constexpr std::int64_t k_elements = 4096, k_least_rows = 16;

  std::int64_t size = 0, rows = 0, columns = 0;  // of a matrix; rows 0: none, elements stand alone
  std::int64_t each = k_elements;                // elements of a strip
  std::int64_t of_matrix = 1;                    // strips of a matrix; 1 as well where a strip has several
  std::int64_t count = 0;

  Strips() = default;
  explicit Strips(std::int64_t elements) : size(elements), count((elements + k_elements - 1) / k_elements) {}
  Strips(std::int64_t elements, std::int64_t matrix_rows, std::int64_t matrix_columns)
      : size(elements), rows(matrix_rows), columns(matrix_columns) {
    const std::int64_t matrix = rows * columns;
    if (elements == 0)
      return;
    if (matrix <= k_elements) {
      each = k_elements / matrix * matrix;
      count = (size + each - 1) / each;
      return;
    }
    const std::int64_t some = k_elements / columns;
    const std::int64_t most = some < k_least_rows ? k_least_rows : some, taken = most < rows ? most : rows;
    each = taken * columns;
    of_matrix = (rows + taken - 1) / taken;
    count = size / matrix * of_matrix;
  }
  SLUICE_HD bool factored() const noexcept { return rows != 0; }
  SLUICE_HD std::int64_t matrices() const noexcept { return rows == 0 ? 0 : size / (rows * columns); }

  /// Elements [begin, end).
  struct Strip {
    std::int64_t begin, end;
  };
  SLUICE_HD Strip strip(std::int64_t i) const noexcept {
    if (of_matrix == 1)
      return {i * each, (i + 1) * each < size ? (i + 1) * each : size};
    const std::int64_t first = i / of_matrix * rows * columns, begin = first + i % of_matrix * each;
    const std::int64_t last = first + rows * columns;
    return {begin, begin + each < last ? begin + each : last};
  }
  /// Where strip i writes its sum of a column of that matrix; of a matrix they stand one behind the other.
  SLUICE_HD std::int64_t partial(std::int64_t i, std::int64_t matrix) const noexcept {
    return (of_matrix == 1 ? matrix : i) * columns;
  }
  std::int64_t partials() const noexcept { return matrices() * of_matrix * columns; }
};

/// Rates: the learning rate, the share that means get of a new gradient, and the most that a relative step is.
struct FactoredRule {
  static constexpr int k_rates = 3;
  double epsilon1 = -1, epsilon2 = 1e-3, clip_threshold = 1, momentum = 0;
  bool relative_step = true, scale_parameter = true;

  SLUICE_HD double least(DType dtype) const noexcept {
    if (epsilon1 >= 0)
      return epsilon1;
    return dtype == DType::float64   ? 0x1p-52
           : dtype == DType::float32 ? 0x1p-23
           : dtype == DType::float16 ? 0x1p-10
                                     : 0x1p-7;
  }
  /// What directions are multiplied by in the step.
  SLUICE_HD double length(const SquareSums<1>& sums, std::int64_t size, const double* rates) const noexcept {
    const auto n = static_cast<double>(size);
    const double weight = std::sqrt(sums.weight / n), direction = std::sqrt(sums.direction[0] / n) / clip_threshold;
    double length = relative_step && rates[2] < rates[0] ? rates[2] : rates[0];
    if (scale_parameter)
      length *= weight < epsilon2 ? epsilon2 : weight;
    return direction > 1 ? length / direction : length;
  }
};

/// The arithmetic of one parameter's step.
template <class C>
struct FactoredStep {
  C share, least, least_square, keep;
  Beta<C> momentum;
  GradientForm<C> form;

  SLUICE_HD FactoredStep(
      const FactoredRule& rule, DType dtype, const double* rates, double decay, const GradientForm<C>& told)
      : share(static_cast<C>(rates[1])),
        least(static_cast<C>(rule.least(dtype))),
        least_square(static_cast<C>(rule.least(dtype) * rule.least(dtype))),
        keep(static_cast<C>(1 - rates[0] * decay)),
        form(told) {
    momentum.keep = static_cast<C>(rule.momentum);
    momentum.rest = static_cast<C>(1 - rule.momentum);
  }
  SLUICE_HD C mixed(C old, double mean) const noexcept { return old + share * (static_cast<C>(mean) - old); }
  SLUICE_HD C at_least(C mean) const noexcept { return mean < least ? least : mean; }
  SLUICE_HD C direction(C grad, C variance) const noexcept {
    return grad / std::sqrt(variance < least_square ? least_square : variance);
  }
  /// Of a direction, without its root.
  SLUICE_HD C square(C grad, C variance) const noexcept {
    return grad / (variance < least_square ? least_square : variance) * grad;
  }
  /// The new weight; `state`, of the momentum, may be null.
  SLUICE_HD C step(C weight, C along, C* state) const noexcept {
    if (state != nullptr)
      along = *state = momentum.mix(*state, along);
    return keep * weight - along;
  }
};

}  // namespace sluice::detail
