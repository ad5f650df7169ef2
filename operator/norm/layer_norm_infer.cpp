#include <array>

#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/norm/layer_norm_kernels.h>

// What layer norm and its like are given and give.
namespace sluice::detail {

namespace {

template <class A>
const A* as(const Attributes& attributes) noexcept {
  return *attributes.type() == attribute_type<A> ? &attributes.as<A>() : nullptr;
}

void check_eps(const Operator& op, double eps) {
  require<ValueError>(eps >= 0, [&] { return message(op.name, ": needs eps >= 0, not ", eps); });
}

void check_axes(const Operator& op, const Shape& x, int axes) {
  require<ShapeError>(
      x.ndim() >= axes, [&] { return message(op.name, ": needs x of at least ", axes, " axes, not of shape ", x); });
}

void check_groups(const Operator& op, const Shape& x, std::int64_t groups) {
  require<ValueError>(groups > 0 && x[1] % groups == 0, [&] {
    return message(op.name, ": the ", x[1], " channels of x of shape ", x, " do not make ", groups, " equal groups");
  });
}

void check_attributes(const Operator& op, const Shape& x, const Attributes& attributes) {
  if (const auto* const layer = as<LayerNormAttributes>(attributes)) {
    check_eps(op, layer->eps);
    require<IndexError>(layer->axis >= 0 && layer->axis < x.ndim(), [&] {
      return message(op.name, ": axis ", layer->axis, " is outside x of shape ", x);
    });
  } else if (const auto* const group = as<GroupNormAttributes>(attributes)) {
    check_eps(op, group->eps);
    check_axes(op, x, 2);
    check_groups(op, x, group->num_groups);
  } else if (const auto* const instance = as<InstanceNormAttributes>(attributes)) {
    check_eps(op, instance->eps);
    check_axes(op, x, 2);
  } else if (const auto* const l2 = as<L2NormalizationAttributes>(attributes)) {
    check_eps(op, l2->eps);
    const bool instance = l2->mode == "instance";
    require<ValueError>(instance || l2->mode == "channel" || l2->mode == "spatial", [&] {
      return message(op.name, ": mode \"", l2->mode, "\" is none of instance, channel and spatial");
    });
    check_axes(op, x, instance ? 1 : 2);
  }
}

NormRows checked_rows(const Operator& op, const ArraySpec& x, const Attributes& attributes, bool centred) {
  require<DTypeError>(
      is_floating(x.dtype), [&] { return message(op.name, ": no kernel for ", x.dtype, " on ", x.device); });
  check_attributes(op, x.shape, attributes);
  return norm_rows(attributes, x.shape, centred);
}

// gamma and beta, as many as there are.
void check_parameters(
    const Operator& op, const ArraySpec& x, std::span<const ArraySpec> parameters, const NormRows& rows) {
  constexpr std::array k_names{"gamma", "beta"};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ArraySpec& one = parameters[i];
    require<ShapeError>(one.shape == Shape{rows.parameters()}, [&] {
      return message(
          op.name,
          ": x of shape ",
          x.shape,
          " needs ",
          k_names[i],
          " of ",
          Shape{rows.parameters()},
          ", not ",
          one.shape);
    });
    const DType wanted = i == 0 ? one.dtype : parameters[0].dtype;
    require<DTypeError>(one.dtype == wanted && (wanted == x.dtype || wanted == wide_type(x.dtype)), [&] {
      return message(
          op.name,
          ": ",
          k_names[i],
          " of ",
          one.dtype,
          " does not go with x of ",
          x.dtype,
          i == 0 ? "" : " and gamma of ",
          i == 0 ? "" : name_of(wanted));
    });
  }
}

}  // namespace

Specs row_norm_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& x = inputs[0];
  const bool centred = inputs.size() == 3;
  const NormRows rows = checked_rows(op, x, attributes, centred);
  check_parameters(op, x, inputs.subspan(1), rows);
  const ArraySpec statistics{{rows.count()}, wide_type(x.dtype), x.device};
  Specs specs{x, statistics};
  if (const auto* const layer = as<LayerNormAttributes>(attributes); layer != nullptr && layer->result) {
    require<DTypeError>(norm_gives(x.dtype, *layer->result, attributes), [&] {
      return message(op.name, ": x of ", x.dtype, " does not give ", *layer->result);
    });
    specs[0].dtype = *layer->result;
  }
  if (centred)
    specs.push_back(statistics);
  return specs;
}

Specs row_norm_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec &dy = inputs[0], &x = inputs[1];
  const bool centred = inputs.size() == 5, scaled = inputs.size() > 3;
  const NormRows rows = checked_rows(op, x, attributes, centred);
  check_like(op.name, "the gradient", dy, x.shape, dy.dtype);
  require<DTypeError>(norm_gives(x.dtype, dy.dtype, attributes), [&] {
    return message(op.name, ": a gradient of ", dy.dtype, " does not fit x of ", x.dtype);
  });
  check_parameters(op, x, inputs.subspan(2, scaled ? 1 : 0), rows);
  for (const ArraySpec& saved : inputs.subspan(scaled ? 3 : 2))
    check_like(op.name, "what forward saved", saved, {rows.count()}, wide_type(x.dtype));
  Specs specs{x};
  if (scaled)
    specs.push_back(inputs[2]);
  if (centred)
    specs.push_back(inputs[2]);
  return specs;
}

}  // namespace sluice::detail
