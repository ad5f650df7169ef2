#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>

#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

using sluice::detail::binary_operator;

bool is_one_of(const Operator* op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [op](const char* name) { return op == find_operator(name); });
}

bool is_same(const ArraySpec& a, const ArraySpec& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
}

/// Does `wide` hold every value of `narrow`, so that a cast there and back changes nothing?
bool holds_all(DType wide, DType narrow) {
  const auto bits = [](DType dtype) { return 8 * size_of(dtype); };
  if (!is_computed(wide) || !is_computed(narrow))
    return false;
  if (narrow == DType::bool_)
    return true;
  if (wide == DType::bool_)
    return false;
  if (is_floating(narrow))
    return is_floating(wide) && bits(wide) > bits(narrow) && bits(wide) >= 32;
  if (is_floating(wide))  // its significand takes the whole number
    return (wide == DType::float64 && bits(narrow) <= 32) || (wide == DType::float32 && bits(narrow) <= 16);
  if (is_unsigned(narrow) == is_unsigned(wide))
    return bits(wide) >= bits(narrow);
  return is_unsigned(narrow) && bits(wide) > bits(narrow);
}

std::vector<std::int64_t> order_of(const Node& node, int ndim) {
  const Shape& given = node.attributes.as<sluice::detail::ShapeAttribute>().shape;
  std::vector<std::int64_t> order(static_cast<std::size_t>(ndim));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (given.ndim() == 0)
    std::reverse(order.begin(), order.end());
  for (int axis = 0; axis < given.ndim(); ++axis)
    order[static_cast<std::size_t>(axis)] = given[axis] < 0 ? given[axis] + ndim : given[axis];
  return order;
}

/// Node after node, with those before it as they are by then.
class Identities {
 public:
  explicit Identities(const Graph& graph)
      : less_{.values = graph.values, .inputs = graph.inputs, .outputs = graph.outputs},
        rewritten_(rewritten_roots(graph)),
        given_(graph.values.size()),
        maker_(graph.values.size()),
        stands_for_(graph.values.size()) {
    std::iota(stands_for_.begin(), stands_for_.end(), ValueId{0});
    for (const ValueId output : graph.outputs)
      given_[output] = given_[graph.root(output)] = true;
    for (Node node : graph.nodes)
      add(std::move(node));
  }

  Graph finish() && {
    for (ValueId& output : less_.outputs)
      output = stands_for_[output];
    for (Value& value : less_.values)
      value.root = less_.values[stands_for_[value.root]].root;
    for (ValueId id = 0; id < less_.values.size(); ++id) {
      if (stands_for_[id] != id)
        less_.values[id].root = id;  // left over
    }
    return std::move(less_);
  }

 private:
  void add(Node node) {
    for (ValueId& input : node.inputs)
      input = stands_for_[input];
    for (Result& result : node.results)
      result.value = stands_for_[result.value];
    if (node.results.size() == 1 && node.results[0].made && !node.inputs.empty() && is_steady(node.inputs[0])) {
      const ValueId made = node.results[0].value;
      const std::optional<ValueId> same = node.is_view() ? viewed(node) : computed(node);
      // What gives an array of its own is not the view that it was given: readers would add up in another order.
      const bool packs = same && !node.is_view() && root(*same) != *same;
      if (same && !packs && takes_place(*same, made)) {
        stands_for_[made] = *same;
        return;
      }
      if (node.op == &sluice::detail::k_reshape)
        node.inputs[0] = same_elements(node.inputs[0]);
    }
    for (const Result& result : node.results)
      maker_[result.value] = less_.nodes.size();
    less_.nodes.push_back(std::move(node));
  }

  // Steady memory holds one value as long as there is any.
  bool is_steady(ValueId value) const { return !rewritten_[root(value)]; }
  ValueId root(ValueId value) const { return stands_for_[less_.values[value].root]; }
  const ArraySpec& spec(ValueId value) const { return less_.values[value].spec; }
  const Node* maker(ValueId value) const { return maker_[value] ? &less_.nodes[*maker_[value]] : nullptr; }

  // The caller may write what it is given: an array of its own, no input or constant, and no other output's.
  bool takes_place(ValueId same, ValueId made) {
    if (!is_same(spec(same), spec(made)) || !is_steady(same) || rewritten_[root(made)])
      return false;
    if (given_[made]) {
      if (given_[same] || root(same) != same || less_.values[same].source != Source::result)
        return false;
      given_[same] = true;
    }
    return true;
  }

  // -- Views --------------------------------------------------------------------------------------------------------
  static bool keeps_elements(const Node& node) {
    return node.op == &sluice::detail::k_reshape || node.op == &sluice::detail::k_expand_dims ||
           node.op == &sluice::detail::k_squeeze;
  }
  // What it is another shape of.
  ValueId same_elements(ValueId value) const {
    for (const Node* from = maker(value); from != nullptr && keeps_elements(*from); from = maker(value))
      value = from->inputs[0];
    return value;
  }
  std::optional<ValueId> viewed(const Node& node) const {
    const ValueId x = node.inputs[0], made = node.results[0].value;
    const bool same_shape = spec(x).shape == spec(made).shape;
    if (node.op == &sluice::detail::k_detach)
      return x;
    if (node.op == &sluice::detail::k_broadcast_to)
      return same_shape ? std::optional(x) : std::nullopt;
    if (node.op == &sluice::detail::k_slice)
      return same_shape && node.attributes.as<sluice::detail::SliceAttributes>().step == 1 ? std::optional(x)
                                                                                           : std::nullopt;
    if (node.op == &sluice::detail::k_transpose)
      return turned_back(node);
    if (!keeps_elements(node))
      return std::nullopt;
    for (ValueId from = x;;) {
      if (spec(from).shape == spec(made).shape)
        return from;
      const Node* const before = maker(from);
      if (before == nullptr || !keeps_elements(*before))
        return std::nullopt;
      from = before->inputs[0];
    }
  }
  std::optional<ValueId> turned_back(const Node& node) const {
    const int ndim = spec(node.inputs[0]).shape.ndim();
    const std::vector<std::int64_t> second = order_of(node, ndim);
    if (std::is_sorted(second.begin(), second.end()))
      return node.inputs[0];
    const Node* const before = maker(node.inputs[0]);
    if (before == nullptr || before->op != &sluice::detail::k_transpose)
      return std::nullopt;
    const std::vector<std::int64_t> first = order_of(*before, ndim);
    for (std::size_t axis = 0; axis < second.size(); ++axis) {
      if (first[static_cast<std::size_t>(second[axis])] != static_cast<std::int64_t>(axis))
        return std::nullopt;
    }
    return before->inputs[0];
  }

  // -- Values -------------------------------------------------------------------------------------------------------
  std::optional<ValueId> computed(const Node& node) const {
    const ValueId x = node.inputs[0];
    if (node.op == &sluice::detail::k_copy || node.op == &sluice::detail::k_cast)
      return copied(node);
    if (node.inputs.size() == 1 && number_in(node) != nullptr)
      return leaves_as_it_is(node) ? std::optional(x) : std::nullopt;
    if (node.inputs.size() == 3 && node.op == find_operator("where") && node.inputs[1] == node.inputs[2])
      return node.inputs[1];
    const Node* const before = maker(x);
    if (node.inputs.size() != 1 || before == nullptr || before->op != node.op || !node.attributes.empty())
      return std::nullopt;
    if (is_one_of(node.op, {"relu", "abs", "sign", "floor", "ceil", "round", "trunc"}))
      return x;
    const bool undoes = is_one_of(node.op, {"bitwise_not"}) || is_undone_negative(node, spec(x)) ||
                        (is_one_of(node.op, {"logical_not"}) && spec(before->inputs[0]).dtype == DType::bool_);
    return undoes && is_steady(before->inputs[0]) ? std::optional(before->inputs[0]) : std::nullopt;
  }
  // On a GPU a negative of a denormal is 0.
  bool is_undone_negative(const Node& node, const ArraySpec& x) const {
    return is_one_of(node.op, {"negative"}) && (!is_floating(x.dtype) || (x.device.is_cpu() && size_of(x.dtype) >= 4));
  }

  std::optional<ValueId> copied(const Node& node) const {
    const ValueId x = node.inputs[0], made = node.results[0].value;
    if (is_same(spec(x), spec(made)))  // one of a view packs it, which its readers would each do
      return root(x) == x ? std::optional(x) : std::nullopt;
    const Node* const before = maker(x);
    if (node.op != &sluice::detail::k_cast || before == nullptr || before->op != &sluice::detail::k_cast)
      return std::nullopt;
    const ValueId from = before->inputs[0];
    const bool exact = holds_all(spec(x).dtype, spec(from).dtype) && (!is_floating(spec(from).dtype) || is_plain(from));
    return exact && is_steady(from) ? std::optional(from) : std::nullopt;
  }

  const sluice::detail::NumberAttribute* number_in(const Node& node) const {
    for (const Binary row : {Binary::add, Binary::subtract, Binary::multiply, Binary::divide}) {
      if (node.op == &binary_operator(row))
        return sluice::detail::number_of(node.attributes);
    }
    return nullptr;
  }
  // x * 1, x / 1, x - 0 and x + -0, of whole numbers x + 0 too; x - -0 and x + 0 turn -0 into 0.
  bool leaves_as_it_is(const Node& node) const {
    const auto& [number, first, present] = *number_in(node);
    const bool whole = !is_floating(spec(node.inputs[0]).dtype);
    if (!whole && !is_plain(node.inputs[0]))
      return false;
    const double value = number.as_double();
    if (node.op == &binary_operator(Binary::multiply))
      return value == 1;
    if (node.op == &binary_operator(Binary::divide))
      return value == 1 && !first;
    if (node.op == &binary_operator(Binary::subtract))
      return value == 0 && !std::signbit(value) && !first;
    return value == 0 && (whole || std::signbit(value));
  }

  // Floating results of arithmetic: denormals have become 0 there where the next call would make them that, and what a
  // NaN holds is what another operation leaves too.
  bool is_plain(ValueId value) const {
    const Node* const from = maker(value);
    return from != nullptr && from->results[0].made &&
           std::any_of(
               k_arithmetic.begin(), k_arithmetic.end(), [&](Binary row) { return from->op == &binary_operator(row); });
  }
  static constexpr std::initializer_list<Binary> k_arithmetic = {
      Binary::add, Binary::subtract, Binary::multiply, Binary::divide};

  Graph less_;
  const std::vector<bool> rewritten_;
  std::vector<bool> given_;  // by value: an output, or the memory of one
  std::vector<std::optional<std::size_t>> maker_;
  std::vector<ValueId> stands_for_;
};

}  // namespace

Graph without_identities(const Graph& graph) {
  return Identities(graph).finish();
}

}  // namespace sluice::graph
