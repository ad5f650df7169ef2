#pragma once

#include <functional>
#include <utility>

#include <sluice/ndarray/autograd.h>

namespace sluice::autograd {

/// A function of one array that operators compute.
using Differentiable = std::function<NDArray(const NDArray& x)>;

/// f(x), and v^T J: the gradient at x of f weighted by `v`, of f's shape (torch.func.vjp). This and all
/// below take x as it is, on no tape, and throw AutogradError where nothing of f was recorded, ShapeError for a `v` of
/// another shape, and what f throws.
SLUICE_API std::pair<NDArray, NDArray> vjp(
    const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site = SourceLocation::current());
/// f(x), and J v: how f changes at x along `v`, of x's shape (torch.func.jvp); by two backward passes.
SLUICE_API std::pair<NDArray, NDArray> jvp(
    const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site = SourceLocation::current());
/// H v: the second derivatives of f, of one element, at x along `v` (torch.autograd.functional.hvp).
SLUICE_API NDArray
hvp(const Differentiable& f, const NDArray& x, const NDArray& v, SourceLocation site = SourceLocation::current());
/// All first derivatives, of f's shape and behind it x's: one backward pass an element of f
/// (torch.autograd.functional.jacobian).
SLUICE_API NDArray jacobian(const Differentiable& f, const NDArray& x, SourceLocation site = SourceLocation::current());
/// All second derivatives of an f of one element, of x's shape twice (torch.autograd.functional.hessian).
SLUICE_API NDArray hessian(const Differentiable& f, const NDArray& x, SourceLocation site = SourceLocation::current());

}  // namespace sluice::autograd
