// Arrays of a form: eye, linspace, meshgrid.
#include <algorithm>
#include <cmath>
#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/linalg/diagonal.h>
#include <sluice/operator/own_memory.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/families.h>
#include <sluice/operator/view/grids.h>

namespace sluice {

namespace {

// Page-locked memory is said where an array is made.
NDArray placed(const NDArray& made, const ArrayOptions& options, SourceLocation site) {
  if (!options.pinned || detail::sink_here() != nullptr)
    return made;
  NDArray to = empty(made.shape(), options);
  copy_into(made, to, site);
  return to;
}

void check_extent(const char* op, const char* name, std::int64_t extent) {
  require<ShapeError>(extent >= 0, [&] { return message(op, ": ", name, " must not be negative, it is ", extent); });
}

// -- eye --------------------------------------------------------------------------------------------------------------
struct EyeAttributes {
  std::int64_t rows = 1;
  std::optional<std::int64_t> columns = {};
  std::int64_t k = 0;
  DType dtype = DType::float32;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("rows", rows);
    v.field("columns", columns);
    v.field("k", k);
    v.field("dtype", dtype);
    v.field("device", device);
  }
};

Specs infer_eye(const Operator& op, std::span<const ArraySpec>, const Attributes& attributes) {
  const auto& a = attributes.as<EyeAttributes>();
  check_extent(op.name, "rows", a.rows);
  check_extent(op.name, "columns", a.columns.value_or(0));
  return {{{a.rows, a.columns.value_or(a.rows)}, a.dtype, a.device}};
}

void issue_eye(const IssueCall& call) {
  const NDArray& y = call.outputs[0];
  const detail::DiagonalAttributes which{call.attributes.as<EyeAttributes>().k, 0, 1};
  const Geometry at = detail::diagonal_of(call.op.name, detail::geometry_of(y), which);
  detail::push_fill(y, 0, call.site, call.made ? detail::CopyTo::made : detail::CopyTo::known);
  if (at.shape.size() > 0)
    detail::push_fill(detail::make_view(y, at.shape, at.strides, at.offset), 1, call.site);
}

// -- linspace ---------------------------------------------------------------------------------------------------------
struct LinspaceAttributes {
  double start = 0, stop = 1;
  std::int64_t count = 50;
  DType dtype = DType::float32;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("start", start);
    v.field("stop", stop);
    v.field("count", count);
    v.field("dtype", dtype);
    v.field("device", device);
  }
};

Specs infer_linspace(const Operator& op, std::span<const ArraySpec>, const Attributes& attributes) {
  const auto& a = attributes.as<LinspaceAttributes>();
  check_extent(op.name, "count", a.count);
  require<ValueError>(std::isfinite(a.start) && std::isfinite(a.stop), [&] {
    return message(op.name, ": from ", a.start, " to ", a.stop, " is not a finite range");
  });
  return {{{a.count}, a.dtype, a.device}};
}

// The last one is `stop` itself, which start + n * step need not be.
Arrays even_numbers(std::span<const NDArray>, const Attributes& attributes, SourceLocation site) {
  infer_linspace(detail::k_linspace, {}, attributes);
  const auto& a = attributes.as<LinspaceAttributes>();
  const auto count = static_cast<double>(a.count);
  const NDArray place = arange(0, count, 1, {.dtype = float64, .device = a.device}, site);
  NDArray values = detail::even_steps(place, a.start, a.stop, std::max(count - 1, 1.0), site);
  if (a.count > 1)
    values = where(equal(place, count - 1, site), a.stop, values, site);
  return {(is_floating(a.dtype) ? values : floor(values, site)).astype(a.dtype, site)};
}

// -- meshgrid ---------------------------------------------------------------------------------------------------------
struct MeshgridAttributes {
  bool xy = true;

  template <class V>
  void visit(V&& v) {
    v.field("xy", xy);
  }
};

int grid_axis(int i, int axes, bool xy) {
  return xy && i < 2 && axes > 1 ? 1 - i : i;
}

Specs infer_meshgrid(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() <= static_cast<std::size_t>(k_max_ndim), [&] {
    return message(op.name, ": ", inputs.size(), " arrays, an array has ", k_max_ndim, " axes at most");
  });
  const int axes = static_cast<int>(inputs.size());
  Shape whole = Shape::filled(axes, 1);
  for (int i = 0; i < axes; ++i) {
    const Shape& each = inputs[static_cast<std::size_t>(i)].shape;
    require<ShapeError>(each.ndim() <= 1, [&] {
      return message(op.name, ": array ", i, " of shape ", each, " has more than one axis");
    });
    whole[grid_axis(i, axes, attributes.as<MeshgridAttributes>().xy)] = each.size();
  }
  Specs grid;
  for (const ArraySpec& each : inputs)
    grid.push_back({whole, each.dtype, each.device});
  return grid;
}

Arrays stretched_to_grid(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const int axes = static_cast<int>(inputs.size());
  Arrays grid;
  if (axes == 0)
    return grid;
  const Shape whole = infer_meshgrid(detail::k_meshgrid, detail::specs_of(inputs), attributes)[0].shape;
  for (int i = 0; i < axes; ++i) {
    const NDArray& each = inputs[static_cast<std::size_t>(i)];
    Shape along = Shape::filled(axes, 1);
    along[grid_axis(i, axes, attributes.as<MeshgridAttributes>().xy)] = each.size();  // asked for, it may be a batch
    const NDArray view = each.reshape(along, site).broadcast_to(whole, site);
    grid.push_back(whole.size() == each.size() ? detail::own_memory(view, each, site) : view);
  }
  return grid;
}

}  // namespace

const Operator detail::k_eye{
    .name = "eye",
    .inputs = 0,
    .attributes = &attribute_type<EyeAttributes>,
    .infer = infer_eye,
    .issue = issue_eye,
    .strided_outputs = true};
constinit const Operator detail::k_linspace{
    .name = "linspace",
    .inputs = 0,
    .attributes = &attribute_type<LinspaceAttributes>,
    .infer = infer_linspace,
    .composition = even_numbers};
constinit const Operator detail::k_meshgrid{
    .name = "meshgrid",
    .inputs = -1,
    .outputs = -1,
    .attributes = &attribute_type<MeshgridAttributes>,
    .infer = infer_meshgrid,
    .composition = stretched_to_grid};

NDArray eye(
    std::int64_t rows,
    std::optional<std::int64_t> columns,
    std::int64_t k,
    const ArrayOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const EyeAttributes how{rows, columns, k, options.dtype, options.device};
    return placed(invoke_one(detail::k_eye, {}, Attributes::of(how), site), options, site);
  });
}

NDArray detail::even_steps(const NDArray& at, double low, double high, double count, SourceLocation site) {
  if (std::isfinite(high - low))
    return add(multiply(at, (high - low) / count, site), low, site);
  const NDArray part = divide(at, count, site);
  return add(multiply(subtract(1, part, site), low, site), multiply(part, high, site), site);
}

NDArray linspace(double start, double stop, std::int64_t count, const ArrayOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const LinspaceAttributes how{start, stop, count, options.dtype, options.device};
    return placed(invoke_one(detail::k_linspace, {}, Attributes::of(how), site), options, site);
  });
}

std::vector<NDArray> meshgrid(const std::vector<NDArray>& arrays, GridOrder order, SourceLocation site) {
  return detail::located(site, [&]() -> std::vector<NDArray> {
    for (const NDArray& each : arrays)
      detail::object_of(each, "meshgrid");
    // Views, also where a program is traced.
    const Attributes how = Attributes::of(MeshgridAttributes{order == GridOrder::xy});
    infer_meshgrid(detail::k_meshgrid, detail::specs_of(arrays), how);
    const Arrays grid = stretched_to_grid(arrays, how, site);
    return {grid.begin(), grid.end()};
  });
}

}  // namespace sluice
