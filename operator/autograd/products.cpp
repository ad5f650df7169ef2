#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/autograd/products.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::autograd {

namespace {

// A variable of the same values, apart from the tape of `x`.
NDArray variable_of(const char* op, const NDArray& x) {
  detail::object_of(x, op);
  NDArray variable = x.detach();
  variable.attach_grad(GradReq::write, {});
  return variable;
}

NDArray recorded(const Differentiable& f, const NDArray& x) {
  const ModeScope record(true, is_training());
  return f(x);
}

NDArray gradient(
    const NDArray& of, const NDArray& at, const NDArray& weight, const BackwardOptions& options, SourceLocation site) {
  BackwardOptions told = options;
  told.train_mode = is_training();
  const std::span<const NDArray> weights = weight.defined() ? std::span(&weight, 1) : std::span<const NDArray>();
  return grad({&of, 1}, {&at, 1}, weights, told, site)[0];
}

void check_alike(const char* op, const NDArray& v, const NDArray& other) {
  detail::object_of(v, op);
  require<ShapeError>(v.shape() == other.shape(), [&] {
    return message(op, ": a direction of shape ", v.shape(), " for an array of shape ", other.shape());
  });
}

void check_one_element(const char* op, const NDArray& y) {
  require<ShapeError>(
      y.size() == 1, [&] { return message(op, ": the function gives shape ", y.shape(), ", not one element"); });
}

// Gradients of each element of y, one behind the other.
NDArray rows_of_gradients(const NDArray& y, const NDArray& x, SourceLocation site) {
  Shape shape = y.shape();
  for (const std::int64_t extent : x.shape())
    shape.push_back(extent);
  if (y.size() == 0 || x.size() == 0)
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  std::vector<NDArray> rows;
  NDArray weight = zeros({y.size()}, {.dtype = y.dtype(), .device = y.device()});
  for (std::int64_t i = 0; i < y.size(); ++i) {
    weight = zeros_like(weight);
    weight.slice(0, i, i + 1).assign(1);
    const bool last = i + 1 == y.size();
    rows.push_back(gradient(y, x, weight.reshape(y.shape()), {.retain_graph = !last}, site).reshape({1, -1}));
  }
  return concat(rows, 0).reshape(shape);
}

}  // namespace

std::pair<NDArray, NDArray> vjp(const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site) {
  return detail::located(site, [&]() -> std::pair<NDArray, NDArray> {
    const NDArray at = variable_of("vjp", x);
    const NDArray y = recorded(f, at);
    check_alike("vjp", v, y);
    return {y.detach(), gradient(y, at, v, {}, site)};
  });
}

// The gradient u -> u^T J is linear in u: its own gradient along v is J v, whatever u is.
std::pair<NDArray, NDArray> jvp(const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site) {
  return detail::located(site, [&]() -> std::pair<NDArray, NDArray> {
    check_alike("jvp", v, x);
    const NDArray at = variable_of("jvp", x);
    const NDArray y = recorded(f, at);
    NDArray weight = zeros_like(y);
    weight.attach_grad(GradReq::write, {});
    const NDArray pulled = gradient(y, at, weight, {.create_graph = true}, site);
    // A function that is constant along the tape gives zeros that no u has part in.
    if (!on_tape(pulled))
      return {y.detach(), zeros_like(y)};
    return {y.detach(), gradient(pulled, weight, v, {}, site)};
  });
}

NDArray hvp(const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_alike("hvp", v, x);
    const NDArray at = variable_of("hvp", x);
    const NDArray y = recorded(f, at);
    check_one_element("hvp", y);
    const NDArray first = gradient(y, at, {}, {.create_graph = true}, site);
    return on_tape(first) ? gradient(first, at, v, {}, site) : zeros_like(x);
  });
}

NDArray jacobian(const Differentiable& f, const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const NDArray at = variable_of("jacobian", x);
    return rows_of_gradients(recorded(f, at), at, site);
  });
}

NDArray hessian(const Differentiable& f, const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const NDArray at = variable_of("hessian", x);
    const NDArray y = recorded(f, at);
    check_one_element("hessian", y);
    const NDArray first = gradient(y, at, {}, {.create_graph = true}, site);
    if (on_tape(first))
      return rows_of_gradients(first, at, site);
    Shape shape = x.shape();
    for (const std::int64_t extent : x.shape())
      shape.push_back(extent);
    return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  });
}

}  // namespace sluice::autograd
