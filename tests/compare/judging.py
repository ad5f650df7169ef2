"""How far two tensors are apart."""

import dataclasses

import torch

from client import DTYPES


@dataclasses.dataclass
class Verdict:
    """The worst element: `error` in units of the last place, or a reason in words."""

    ok: bool
    error: float = 0.0
    allowed: float = 0.0
    said: str = ""


def unit_in_last_place(size, dtype):
    """The distance of neighbours in the type at numbers of that size, not below the smallest normal number's."""
    info = torch.finfo(DTYPES[dtype])
    size = size.abs().clamp(min=info.tiny, max=info.max)
    _, exponent = torch.frexp(size)
    return torch.ldexp(torch.full_like(size, info.eps), exponent - 1)


def describe(got, wanted, index):
    place = tuple(int(i) for i in index)
    return f"at {place}: {got[place].item()!r}, PyTorch {wanted[place].item()!r}"


def errors_of(got, wanted, dtype, floor):
    """Per element: the distance in units of the last place; infinite where one is a number and the other is none."""
    target = wanted.to(DTYPES[dtype]).to(torch.float64)
    size = wanted.abs()
    finite = size.isfinite()
    if floor == "largest":
        floor = float(size[finite].max()) if finite.any() else 0.0
    unit = unit_in_last_place(torch.maximum(size, torch.full_like(size, floor)), dtype)
    tiny = torch.finfo(DTYPES[dtype]).tiny
    distance = (got - wanted).abs()
    errors = torch.where(distance <= tiny, torch.zeros_like(distance), distance / unit)
    # Where the type has only an infinity for the number, the largest number will do where rounding may go either way.
    overflow = target.isinf() & wanted.isfinite() & (got.abs() == torch.finfo(DTYPES[dtype]).max)
    unlike = ~(got.isfinite() & target.isfinite())
    same = (got == target) | (got.isnan() & target.isnan()) | overflow
    return torch.where(unlike, torch.where(same, 0.0, float("inf")), errors)


def zeros_unlike(got, wanted):
    return (wanted == 0) & (got == 0) & (torch.signbit(got) != torch.signbit(wanted))


def judge(got, wanted, allowed, floor, zero_signs, other=None):
    """`got` as Sluice gave it, `wanted` in float64 or whole numbers; `other`, where given, is good enough too."""
    if tuple(got.shape) != tuple(wanted.shape):
        return Verdict(False, said=f"shape {tuple(got.shape)}, PyTorch {tuple(wanted.shape)}")
    if got.numel() == 0:
        return Verdict(True)
    if not got.dtype.is_floating_point:
        unlike = got.to(torch.int64) != wanted.to(torch.int64)
        if not unlike.any():
            return Verdict(True)
        return Verdict(False, float(unlike.sum()), 0, describe(got, wanted, unlike.nonzero()[0]))
    dtype = str(got.dtype).removeprefix("torch.")
    got, wanted = got.to(torch.float64), wanted.to(torch.float64)
    errors = errors_of(got, wanted, dtype, floor)
    if other is not None and other.shape == got.shape:
        other = other.to(torch.float64)
        errors = torch.minimum(errors, errors_of(got, other, dtype, floor))
    worst = int(errors.argmax())
    error = float(errors.flatten()[worst])
    if error > allowed:
        return Verdict(False, error, allowed, describe(got, wanted, unravel(worst, got.shape)))
    if zero_signs:
        unlike = zeros_unlike(got, wanted)
        if other is not None and other.shape == got.shape:
            unlike = unlike & zeros_unlike(got, other)
        if unlike.any():
            return Verdict(False, error, allowed, "sign of zero " + describe(got, wanted, unlike.nonzero()[0]))
    return Verdict(True, error, allowed)


def unravel(place, shape):
    index = []
    for extent in reversed(shape):
        index.append(place % extent)
        place //= extent
    return reversed(index)
