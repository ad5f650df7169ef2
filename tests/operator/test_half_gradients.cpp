// Second gradients of half types, by gradients that are recorded, against those of float32 (of rows, of float64) of the
// same numbers: of every differentiable operator, and of rows over all that the types hold.
//
// How far apart they may be follows from u, half the distance of 1 to the next number: every array on the way is
// rounded by u at most, and what that does is seen by moving what is given by u. An operator's second gradient is a
// handful of arrays behind each other, so a handful of such moves is the most; a wrong formula, or numbers that do not
// fit on the way, are off by 1 / u of them, or not finite.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/operator/elementwise_rows.h"
#include "tests/operator/every_case.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Values = std::vector<double>;

struct HalfType {
  DType dtype;
  double u, least, largest;  // least: of those with all digits
};
constexpr HalfType k_half_types[] = {
    {float16, 0x1p-11, 0x1p-14, 65504}, {bfloat16, 0x1p-8, 0x1p-126, 3.3895313892515355e38}};

Values values_of(const NDArray& array) {
  return array.to(cpu()).to_vector<double>();
}

/// Moves each number by u one way or the other, or by nothing.
class Mover {
 public:
  Mover(double u, unsigned seed) : u_(u), random_(seed) {}

  NDArray operator()(const NDArray& x) {
    if (u_ == 0)
      return x;
    Values values = values_of(x);
    for (double& value : values)
      value *= 1 + ((random_() & 1) != 0 ? u_ : -u_);
    return array(values, x.shape()).astype(x.dtype());
  }

 private:
  double u_;
  std::mt19937 random_;
};

// -- Every differentiable operator ----------------------------------------------------------------------------------

struct Computed {
  DType drawn, dtype;  // numbers are of `drawn`, and computed with in `dtype`
  Device device = cpu();
};

// The gradients of the inputs, and the gradients of these to the inputs and to the head.
Arrays both_gradients(const DifferentiableCase& c, const Computed& as, Mover moved) {
  random::seed(7);
  std::uint64_t seed = 10;
  const auto draw = [&](const Shape& shape, double low, double high, DType dtype) {
    const NDArray drawn = random_array(shape, seed++, low, high, as.drawn).astype(dtype);
    return moved(drawn).to(as.device).detach();
  };
  const autograd::RecordScope record;
  std::vector<NDArray> variables;
  for (const Shape& shape : c.shapes) {
    variables.push_back(draw(shape, c.low, c.high, as.dtype));
    variables.back().attach_grad();
  }
  std::vector<NDArray> ends{c.f(variables)},
      heads{draw(ends[0].shape(), 0.5, 1.5, ends[0].dtype()).to(ends[0].device())};
  heads[0].attach_grad();
  ends = autograd::grad(ends, variables, heads, {.create_graph = true});
  Arrays made;
  for (const NDArray& first : ends)
    made.push_back(first.detach());
  variables.push_back(heads[0]);
  std::erase_if(ends, [](const NDArray& end) { return !autograd::on_tape(end); });
  heads.clear();
  for (const NDArray& end : ends)
    heads.push_back(draw(end.shape(), 0.5, 1.5, end.dtype()).to(end.device()));
  if (!ends.empty()) {
    for (const NDArray& second : autograd::grad(ends, variables, heads))
      made.push_back(second);
  }
  return made;
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double value : values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

double farthest(const Values& a, const Values& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Empty if `device` gives in the half type what float32 gives of the same numbers.
std::string second_differences(const DifferentiableCase& c, const HalfType& half, Device device) {
  constexpr int k_moves = 8;
  constexpr double k_roundings = 8;
  try {
    const Arrays got = both_gradients(c, {half.dtype, half.dtype, device}, {0, 0});
    const Arrays want = both_gradients(c, {half.dtype, float32}, {0, 0});
    std::vector<Arrays> moved;
    for (unsigned i = 0; i < k_moves; ++i)
      moved.push_back(both_gradients(c, {half.dtype, float32}, {half.u, i}));
    if (got.size() != want.size())
      return message(got.size(), " gradients, expected ", want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const Values wanted = values_of(want[i]);
      double reach = half.u * largest_of(wanted);
      for (const Arrays& other : moved)
        reach = std::max(reach, farthest(values_of(other[i]), wanted));
      const std::string found = differences(got[i], want[i], {0, k_roundings * (reach + half.u * half.least)});
      if (!found.empty())
        return message(c.name, i < c.shapes.size() ? ", gradient " : ", gradient of gradients ", i, ": ", found);
    }
    return {};
  } catch (const std::exception& error) {
    return message(c.name, ": ", error.what());
  }
}

void check_every_operator(Device device) {
  for (const HalfType& half : k_half_types) {
    CAPTURE(half.dtype);
    for (const DifferentiableCase& c : every_differentiable_case()) {
      if (!c.in_float32)
        CHECK(second_differences(c, half, device) == "");
    }
  }
}

// -- Rows, over all that a type holds -------------------------------------------------------------------------------

using Row = std::function<NDArray(const std::vector<NDArray>&)>;

constexpr double k_head = 1.5, k_second_head = 0.75;

/// Of a row of n operands: n gradients, and for each those of it, n to the operands and one to the head. Undefined
/// where nothing depends on that any more.
Arrays gradients_of_row(const Row& row, const std::vector<NDArray>& operands, DType dtype) {
  const autograd::RecordScope record;
  std::vector<NDArray> variables;
  for (const NDArray& operand : operands) {
    variables.push_back(operand.astype(dtype).detach());
    variables.back().attach_grad();
  }
  const std::vector<NDArray> y{row(variables)};
  std::vector<NDArray> head{full(y[0].shape(), k_head, {.dtype = y[0].dtype()})};
  head[0].attach_grad();
  const std::vector<NDArray> first = autograd::grad(y, variables, head, {.create_graph = true});
  variables.push_back(head[0]);
  Arrays made;
  for (const NDArray& gradient : first)
    made.push_back(gradient.detach());
  for (const NDArray& gradient : first) {
    std::vector<NDArray> second(variables.size());
    if (autograd::on_tape(gradient)) {
      const std::vector<NDArray> of{gradient},
          heads{full(gradient.shape(), k_second_head, {.dtype = gradient.dtype()})};
      second = autograd::grad(of, variables, heads, {.retain_graph = true});
    }
    made.insert(made.end(), second.begin(), second.end());
  }
  return made;
}

/// What float64 gives for the numbers of a half type, and how far off roundings may be.
struct Expected {
  Values y;
  std::vector<Values> gradients, reach;  // no numbers where there is no gradient
};

// Each operand is moved by u, and by what moves the result by u: formulas that read the result read a rounded one.
Expected expected_of(const Row& row, const std::vector<NDArray>& operands, double u) {
  const std::size_t n = operands.size();
  Expected made{values_of(row(operands)), {}, {}};
  for (const NDArray& gradient : gradients_of_row(row, operands, float64)) {
    made.gradients.push_back(gradient.defined() ? values_of(gradient) : Values());
    made.reach.emplace_back(made.gradients.back().size());
  }
  const auto add_moved = [&](std::size_t operand, bool by_result, double sign) {
    std::vector<NDArray> there = operands;
    Values x = values_of(operands[operand]);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double slope = made.gradients[operand].empty() ? 0 : made.gradients[operand][k] / k_head;
      const double step = by_result ? std::abs(made.y[k] / slope) : std::abs(x[k]);
      x[k] += std::isfinite(step) ? sign * u * step : 0;
    }
    there[operand] = array(x, operands[operand].shape());
    const Arrays moved = gradients_of_row(row, there, float64);
    for (std::size_t i = 0; i < made.reach.size(); ++i) {
      const Values values = made.reach[i].empty() ? Values() : values_of(moved[i]);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double change = std::abs(values[k] - made.gradients[i][k]);
        made.reach[i][k] += std::isfinite(change) ? change : 0;  // moved out of where the function is one
      }
    }
  };
  for (std::size_t operand = 0; operand < n; ++operand) {
    for (const double sign : {-1.0, 1.0}) {
      add_moved(operand, false, sign);
      add_moved(operand, true, sign);
    }
  }
  // It is rounded itself, and a second one made of terms as large as the first one over the operand, which may cancel.
  for (std::size_t i = 0; i < made.reach.size(); ++i) {
    const bool second = i >= n && (i - n) % (n + 1) < n;
    const Values none(made.reach[i].size(), 0);
    const Values& first = second ? made.gradients[(i - n) / (n + 1)] : none;
    const Values x = second ? values_of(operands[(i - n) % (n + 1)]) : none;
    for (std::size_t k = 0; k < made.reach[i].size(); ++k) {
      const double term = std::abs(first[k] / x[k]);
      made.reach[i][k] += u * (std::abs(made.gradients[i][k]) + (std::isfinite(term) ? term : 0));
    }
  }
  return made;
}

bool is_near(double got, double want, double reach, const HalfType& half) {
  constexpr double k_roundings = 4;
  if (got == want || (std::isnan(got) && std::isnan(want)))
    return true;
  const double most = k_roundings * (reach + half.u * half.least);
  if (std::isinf(got))
    return std::signbit(got) == std::signbit(want) && std::abs(want) + most >= half.largest;
  return std::isfinite(want) && std::abs(got - want) <= most;
}

// Empty if the row's gradients are near what float64 says; where float64's result is none of the type's, nothing is.
std::string row_differences(
    const std::string& name, const Row& row, const std::vector<Values>& at, const HalfType& half) {
  std::vector<NDArray> narrow, wide;
  for (const Values& values : at) {
    narrow.push_back(array(values, {std::ssize(values)}).astype(half.dtype));
    wide.push_back(narrow.back().astype(float64));
  }
  const Expected want = expected_of(row, wide, half.u);
  const Arrays got = gradients_of_row(row, narrow, half.dtype);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Values values = got[i].defined() ? values_of(got[i]) : Values();
    if (values.size() != want.gradients[i].size())
      return message(name, ": gradient ", i, " is there or not");
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double y = std::abs(want.y[k]);
      const bool fits = !(y > half.largest || (y != 0 && y < half.least));
      if (!fits || is_near(values[k], want.gradients[i][k], want.reach[i][k], half))
        continue;
      std::string where;
      for (const NDArray& operand : wide)
        where += message(' ', values_of(operand)[k]);
      return message(name, ", gradient ", i, " at", where, " is ", values[k], ", expected ", want.gradients[i][k]);
    }
  }
  return {};
}

Values with_signs(const Values& values) {
  Values both;
  for (const double value : values) {
    both.push_back(value);
    both.push_back(-value);
  }
  return both;
}

}  // namespace

TEST_CASE("Second gradients of half types are those of float32 but for roundings", "[head][half]") {
  check_every_operator(cpu());
}

TEST_CASE("Second gradients of half types are those of float32 on a GPU but for roundings", "[head][half][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_every_operator(gpu());
}

TEST_CASE("Gradients of rows and their gradients hold over all that half types hold", "[half]") {
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  const Values unary =
      with_signs({0, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1.5, 2, 3.3, 5, 10, 20, 50, 100, 300, 1e3, 1e4, 6e4, k_infinity});
  const Values binary = with_signs({0, 1e-3, 0.5, 1.5, 2, 10, 300, 1e4, k_infinity});
  Values left, right;
  for (const double a : binary) {
    for (const double b : binary) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  for (const HalfType& half : k_half_types) {
    CAPTURE(half.dtype);
    for (const UnaryCase& row : unary_cases()) {
      if (row.has_gradient())
        CHECK(
            row_differences(
                row.name, [&](const auto& x) { return row(x[0]); }, {unary}, half) == "");
    }
    for (const BinaryCase& row : binary_cases()) {
      if (row.has_gradient())
        CHECK(
            row_differences(
                row.name, [&](const auto& x) { return row(x[0], x[1]); }, {left, right}, half) == "");
    }
  }
}
