#include <algorithm>
#include <limits>
#include <utility>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/offer.h>
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
  const DType dtype = inputs.size() == 1 ? inputs[0].dtype : detail::multiplied(inputs[0].dtype);
  return {{equation.result_shape(), dtype, inputs[0].device}};
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

// -- Which two operands become one, and then which
// ---------------------------------------------------------------------
using Pair = std::pair<std::size_t, std::size_t>;
using Extents = std::map<char, std::int64_t>;

/// The axes of all operands.
using Terms = std::vector<std::string>;

std::string needed_without(const Terms& terms, const std::string& result, const Pair& pair) {
  std::string needed = result;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i != pair.first && i != pair.second)
      needed += terms[i];
  }
  return needed;
}

std::string product_of(const Terms& terms, const std::string& result, const Pair& pair) {
  const std::string needed = needed_without(terms, result, pair);
  std::string made = terms[pair.first];
  for (const char axis : terms[pair.second])
    made += has(made, axis) ? "" : std::string(1, axis);
  std::erase_if(made, [&](char axis) { return !has(needed, axis); });
  return made;
}

double size_of(const std::string& names, const Extents& extents) {
  double size = 1;
  for (const char axis : names)
    size *= static_cast<double>(extents.at(axis));
  return size;
}

// Whose product makes the arrays together smallest.
Pair cheapest(const Terms& terms, const std::string& result, const Extents& extents) {
  Pair best{0, 1};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < terms.size(); ++a) {
    for (std::size_t b = a + 1; b < terms.size(); ++b) {
      const double growth =
          size_of(product_of(terms, result, {a, b}), extents) - size_of(terms[a], extents) - size_of(terms[b], extents);
      if (growth < least) {
        least = growth;
        best = {a, b};
      }
    }
  }
  return best;
}

std::vector<Pair> order_of(Terms terms, const std::string& result, const Extents& extents) {
  std::vector<Pair> order;
  while (terms.size() > 1) {
    const Pair pair = cheapest(terms, result, extents);
    terms[pair.first] = product_of(terms, result, pair);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(pair.second));
    order.push_back(pair);
  }
  return order;
}

// A trace serves batches of other sizes: where these would come in another order, it is told that they were asked for.
void ask_for_order(std::span<const NDArray> inputs, const Equation& equation) {
  if (inputs.size() < 3 || detail::sink_here() == nullptr)
    return;
  const std::vector<Pair> order = order_of(equation.operands, equation.result, equation.extents);
  for (const std::int64_t batch : {std::int64_t{2}, std::int64_t{1} << 10, std::int64_t{1} << 20}) {
    Extents extents = equation.extents;
    for (const std::string& names : equation.operands) {
      if (!names.empty() && extents.at(names[0]) > 1)
        extents.at(names[0]) = batch;
    }
    if (order_of(equation.operands, equation.result, extents) == order)
      continue;
    for (const NDArray& input : inputs)
      input.shape();
    return;
  }
}

/// The operands that are left, of which two become one until there is one.
class Contraction {
 public:
  Contraction(const Equation& equation, std::span<const NDArray> inputs, SourceLocation site)
      : equation_(equation), site_(site) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const NDArray x = inputs.size() > 1 ? detail::as_numbers(inputs[i], site) : inputs[i];
      terms_.push_back(once_each(x, equation.operands[i], equation, site));
    }
    for (std::size_t i = 0; i < terms_.size(); ++i)
      sum_own(i);
  }

  NDArray result() {
    for (const Pair& pair : order_of(names(), equation_.result, equation_.extents)) {
      const auto [a, b] = pair;
      const std::string needed = needed_without(names(), equation_.result, pair);
      NamedAxes product = detail::contracted(terms_[a], terms_[b], needed, site_);
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(b));
      terms_[a] = std::move(product);
    }
    return detail::arranged(terms_[0], equation_.result, site_);
  }

 private:
  // What no other operand has, nor the result, is summed before anything is multiplied.
  void sum_own(std::size_t i) {
    NamedAxes& term = terms_[i];
    const std::string needed = needed_without(names(), equation_.result, {i, i});
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
    // Sums of small integers are wide ones, and of a lone operand's truths numbers.
    term = {sum(term.array, axes, false, site_).astype(term.array.dtype(), site_), rest};
  }

  Terms names() const {
    Terms all;
    for (const NamedAxes& term : terms_)
      all.push_back(term.names);
    return all;
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
  ask_for_order(inputs, equation);
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
