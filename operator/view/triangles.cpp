// Parts of matrices: tril, triu.
#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/grids.h>
#include <sluice/operator/view/triangles.h>

namespace sluice {

namespace detail {

bool keeps_upper(const Operator& op) noexcept {
  return &op == &k_triu;
}

Triangles triangles_of(const KernelCall& call) {
  return {call.inputs[0].shape, call.attributes.as<TriangleAttributes>().k, keeps_upper(call.op)};
}

void triangle_cpu(const KernelCall& call) {
  const Triangles at = triangles_of(call);
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const bool upper = keeps_upper(call.op);
  const std::size_t element = size_of(x.dtype), row = static_cast<std::size_t>(at.columns) * element;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / at.columns);
  parallel_for(y.size / at.columns, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::byte* const from = x.as<const std::byte>() + static_cast<std::size_t>(i) * row;
      std::byte* const to = y.as<std::byte>() + static_cast<std::size_t>(i) * row;
      const std::size_t border = static_cast<std::size_t>(at.border(i % at.rows)) * element;
      std::memcpy(upper ? to + border : to, upper ? from + border : from, upper ? row - border : border);
      std::memset(upper ? to : to + border, 0, upper ? border : row - border);
    }
  });
}

}  // namespace detail

namespace {

using detail::TriangleAttributes;

Specs infer_triangle(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  const ArraySpec& x = inputs[0];
  require<ShapeError>(x.shape.ndim() >= 2, [&] {
    return message(op.name, ": an array of shape ", x.shape, " has no two axes of a matrix");
  });
  return {x};
}

// The part of dy that x had in the result.
Arrays triangle_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? invoke_one(call.op, {dy}, call.attributes, SourceLocation::current()) : NDArray()};
}

constexpr Operator triangle(const char* name) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<TriangleAttributes>;
  op.infer = infer_triangle;
  op.kernels = {on_cpu(detail::triangle_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::triangle_gpu))};
  op.gradient = triangle_gradient;
  op.prompt = true;
  return op;
}

NDArray part_of(const Operator& op, const NDArray& x, std::int64_t k, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(TriangleAttributes{k}), site);
  });
}

}  // namespace

constinit const Operator detail::k_tril = triangle("tril");
constinit const Operator detail::k_triu = triangle("triu");

NDArray tril(const NDArray& x, std::int64_t k, SourceLocation site) {
  return part_of(detail::k_tril, x, k, site);
}

NDArray triu(const NDArray& x, std::int64_t k, SourceLocation site) {
  return part_of(detail::k_triu, x, k, site);
}

}  // namespace sluice
