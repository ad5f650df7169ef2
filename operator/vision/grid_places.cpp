#include <sluice/engine/parallel.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/detail/spec_checks.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sides.h>
#include <sluice/operator/vision/grid_rule.h>

namespace sluice::detail {

namespace {

Shape check_grid(const Operator& op, const ArraySpec& grid, const Attributes& attributes) {
  const auto& a = attributes.as<GridPlacesAttributes>();
  check_pair(op.name, {a.height, a.width}, 1, "height and width");
  require<ValueError>(
      !a.border || !a.reflection, [&] { return message(op.name, ": padding is border or reflection, not both"); });
  require<DTypeError>(is_floating(grid.dtype) && grid.dtype == wide_type(grid.dtype), [&] {
    return message(op.name, ": takes float32 or float64, not ", grid.dtype);
  });
  const Shape& shape = grid.shape;
  require<ShapeError>(shape.ndim() == 4 && shape[3] == 2, [&] {
    return message(op.name, ": a grid is (N, OH, OW, 2), of (column, row), not ", shape);
  });
  return {shape[0], shape[1], shape[2]};
}

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec of{check_grid(op, inputs[0], attributes), inputs[0].dtype, inputs[0].device};
  return {of, of};
}

// gradients of rows and of columns, grid
Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const ArraySpec& grid = inputs[2];
  const Shape places = check_grid(op, grid, attributes);
  check_like(op.name, "the gradient of rows", inputs[0], places, grid.dtype);
  check_like(op.name, "the gradient of columns", inputs[1], places, grid.dtype);
  return {{grid.shape, grid.dtype, grid.device}};
}

NDArray turned_back(const NDArray& rows, const NDArray& columns, const NDArray& grid, const Attributes& how) {
  return invoke_one(k_grid_places_backward, {rows, columns, grid}, how, SourceLocation::current());
}

Arrays gradient(const GradientCall& call) {
  const NDArray &rows = call.output_grads[0], &columns = call.output_grads[1];
  if (!call.wanted[0] || (!rows.defined() && !columns.defined()))
    return Arrays(1);
  const NDArray none = rows.defined() && columns.defined() ? NDArray() : zeros_like(rows.defined() ? rows : columns);
  return {
      turned_back(rows.defined() ? rows : none, columns.defined() ? columns : none, call.inputs[0], call.attributes)};
}

// Each number grows by a factor that does not change with it: the same factors, of a head of columns and rows.
Arrays backward_gradient(const GradientCall& call) {
  Arrays grads(3);
  if (!call.output_grads[0].defined() || (!call.wanted[0] && !call.wanted[1]))
    return grads;
  const auto number = [](const NDArray& of, int i) { return of.slice(3, i, i + 1).squeeze(3); };
  const NDArray& head = call.output_grads[0];
  const NDArray made = turned_back(number(head, 1), number(head, 0), call.inputs[2], call.attributes);
  grads[0] = number(made, 1);
  grads[1] = number(made, 0);
  return grads;
}

}  // namespace

void grid_places_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const GridRules<C> rules(call.attributes.as<GridPlacesAttributes>());
    const C* const grid = call.inputs[0].as<const C>();
    C *const rows = call.outputs[0].as<C>(), *const columns = call.outputs[1].as<C>();
    parallel_for(call.outputs[0].size, 4 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        rules.put(grid, rows, columns, i);
    });
  });
}

void grid_places_backward_cpu(const KernelCall& call) {
  by_computing_type(call.outputs[0].dtype, [&]<class C>() {
    const GridRules<C> rules(call.attributes.as<GridPlacesAttributes>());
    const C *const rows = call.inputs[0].as<const C>(), *const columns = call.inputs[1].as<const C>();
    const C* const grid = call.inputs[2].as<const C>();
    C* const to = call.outputs[0].as<C>();
    parallel_for(call.inputs[0].size, 4 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        rules.put_gradient(rows, columns, grid, to, i);
    });
  });
}

constinit const Operator k_grid_places{
    .name = "grid_places",
    .outputs = 2,
    .attributes = &attribute_type<GridPlacesAttributes>,
    .infer = infer,
    .kernels = {on_cpu(grid_places_cpu), on_gpu(SLUICE_GPU_KERNEL(grid_places_gpu))},
    .gradient = gradient,
    .saved_inputs = 0b1,
};
constinit const Operator k_grid_places_backward{
    .name = "grid_places_backward",
    .inputs = 3,
    .attributes = &attribute_type<GridPlacesAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(grid_places_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(grid_places_backward_gpu))},
    .gradient = backward_gradient,
    .saved_inputs = 0b100,
};

}  // namespace sluice::detail
