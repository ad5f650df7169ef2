#include <algorithm>
#include <limits>
#include <utility>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/contraction.h>
#include <sluice/operator/linalg/diagonal.h>
#include <sluice/operator/linalg/equation.h>
#include <sluice/operator/linalg/products.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

using detail::Equation;
using detail::NamedAxes;

struct EinsumAttributes {
  std::string equation = {};

  template <class V>
  void visit(V&& v) {
    v.field("equation", equation);
  }
};

Specs infer_einsum(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(!inputs.empty(), [&] { return message(op.name, ": no operands"); });
  std::vector<Shape> shapes;
  for (const ArraySpec& input : inputs)
    shapes.push_back(input.shape);
  const Equation equation = detail::parse_equation(attributes.as<EinsumAttributes>().equation, shapes);
  return {{equation.result_shape(), inputs[0].dtype, inputs[0].device}};
}

bool has(const std::string& names, char axis) {
  return names.find(axis) != std::string::npos;
}

// Every axis once: diagonals of those that come twice, and none of extent 1 where others have more.
NamedAxes once_each(NDArray x, std::string names, const Equation& equation, SourceLocation site) {
  for (std::size_t i = names.size(); i-- > 0;) {
    if (detail::unseen_shape(x)[static_cast<int>(i)] == 1 && equation.extents.at(names[i]) != 1) {
      x = x.squeeze(static_cast<int>(i), site);
      names.erase(i, 1);
    }
  }
  for (std::size_t i = 0; i < names.size();) {
    const std::size_t again = names.find(names[i], i + 1);
    if (again == std::string::npos) {
      ++i;
      continue;
    }
    const detail::DiagonalAttributes which{0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(again)};
    x = invoke_one(detail::k_diagonal, {x}, Attributes::of(which), site);
    names += names[i];
    names.erase(again, 1).erase(i, 1);
  }
  return {std::move(x), std::move(names)};
}

/// The operands that are left, of which two become one until there is one.
class Contraction {
 public:
  Contraction(const Equation& equation, std::span<const NDArray> inputs, SourceLocation site)
      : equation_(equation), site_(site) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      terms_.push_back(once_each(inputs[i], equation.operands[i], equation, site));
    for (std::size_t i = 0; i < terms_.size(); ++i)
      sum_own(i);
  }

  NDArray result() {
    while (terms_.size() > 1) {
      const auto [a, b] = cheapest();
      NamedAxes product = detail::contracted(terms_[a], terms_[b], needed_without(a, b), site_);
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(b));
      terms_[a] = std::move(product);
    }
    return detail::arranged(terms_[0], equation_.result, site_);
  }

 private:
  // What no other operand has, nor the result, is summed before anything is multiplied.
  void sum_own(std::size_t i) {
    NamedAxes& term = terms_[i];
    const std::string needed = needed_without(i, i);
    Shape axes;
    std::string rest;
    for (std::size_t axis = 0; axis < term.names.size(); ++axis) {
      if (has(needed, term.names[axis]))
        rest += term.names[axis];
      else
        axes.push_back(static_cast<std::int64_t>(axis));
    }
    if (axes.empty())
      return;
    // Sums of small integers are wide ones, and of bool are numbers.
    term = {sum(term.array, axes, false, site_).astype(term.array.dtype(), site_), rest};
  }

  std::string needed_without(std::size_t a, std::size_t b) const {
    std::string needed = equation_.result;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      if (i != a && i != b)
        needed += terms_[i].names;
    }
    return needed;
  }

  double size_of(const std::string& names) const {
    double size = 1;
    for (const char axis : names)
      size *= static_cast<double>(equation_.extents.at(axis));
    return size;
  }

  // By how much the arrays together grow.
  double growth(std::size_t a, std::size_t b) const {
    const std::string needed = needed_without(a, b);
    std::string made = terms_[a].names;
    for (const char axis : terms_[b].names)
      made += has(made, axis) ? "" : std::string(1, axis);
    std::erase_if(made, [&](char axis) { return !has(needed, axis); });
    return size_of(made) - size_of(terms_[a].names) - size_of(terms_[b].names);
  }

  std::pair<std::size_t, std::size_t> cheapest() const {
    std::pair<std::size_t, std::size_t> best{0, 1};
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < terms_.size(); ++a) {
      for (std::size_t b = a + 1; b < terms_.size(); ++b) {
        if (const double cost = growth(a, b); cost < least) {
          least = cost;
          best = {a, b};
        }
      }
    }
    return best;
  }

  const Equation& equation_;
  SourceLocation site_;
  std::vector<NamedAxes> terms_;
};

Arrays einsum_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  require<ValueError>(!inputs.empty(), [] { return "einsum: no operands"; });
  std::vector<Shape> shapes;
  for (const NDArray& input : inputs)
    shapes.push_back(detail::unseen_shape(input));
  const Equation equation = detail::parse_equation(attributes.as<EinsumAttributes>().equation, shapes);
  NDArray made = Contraction(equation, inputs, site).result();
  if (!made.same(inputs[0]))
    return {std::move(made)};
  Shape order;  // the operand as it is, by a handle of its own
  for (int axis = 0; axis < shapes[0].ndim(); ++axis)
    order.push_back(axis);
  return {made.transpose(order, site)};
}

}  // namespace

const Operator detail::k_einsum{
    .name = "einsum",
    .inputs = -1,
    .attributes = &attribute_type<EinsumAttributes>,
    .normalise = detail::promote_inputs,
    .infer = infer_einsum,
    .composition = einsum_of,
};

NDArray einsum(const std::string& equation, std::span<const NDArray> operands, SourceLocation site) {
  return invoke(detail::k_einsum, operands, Attributes::of(EinsumAttributes{equation}), site)[0];
}

NDArray einsum(const std::string& equation, std::initializer_list<NDArray> operands, SourceLocation site) {
  return einsum(equation, std::span(operands.begin(), operands.size()), site);
}

}  // namespace sluice
