"""Quantiles, and what leaves NaNs out."""

import math

import torch

import values
from table import Call, compare, of

from .reductions import LARGER, SCANNED, flat_argument, reduction, reversed_along, sprinkled

for q in (0.0, 0.3, 1.0):
    compare(
        "quantile",
        Call(
            lambda source: [source.distinct(3, 5)],
            lambda x, q=q: torch.quantile(x, q, 1),
            {"q": q, "axes": (1,)},
            values.PRECISE,
            layouts=values.LAYOUTS[:4],
            floor="largest",
        ),
    )


def flat_last(x, axes):
    """The reduced axes as one, the last."""
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    return x.permute(*kept, *axes).reshape([x.shape[axis] for axis in kept] + [-1])


def kept(result, x, axes, keep, first=0):
    shape = [1 if axis in axes else x.shape[axis] for axis in range(x.dim())]
    return result.reshape(list(result.shape[:first]) + shape) if keep else result


QUANTILES = {"layouts": values.LAYOUTS[:4], "floor": "largest", "ulps": 8}
for shape, axes in (((3, 5), (1,)), ((3, 4, 5), (0, 2)), ((3, 4, 5), (0, 1, 2)), ((2, 6, 3), (1, 2))):
    for keep in (False, True):
        told = {"axes": axes, "keepdims": keep}
        for name, scale, function in (
            ("quantile", 1, torch.quantile),
            ("percentile", 100, torch.quantile),
            ("nanquantile", 1, torch.nanquantile),
            ("nanpercentile", 100, torch.nanquantile),
        ):

            def several(x, axes=axes, keep=keep, function=function):
                q = torch.tensor([0.25, 0.5, 0.9], dtype=x.dtype)
                return kept(function(flat_last(x, axes), q, -1), x, axes, keep, 1)

            def distinct(source, shape=shape, lost=name.startswith("nan")):
                x = source.distinct(*shape)
                if lost:
                    x.view(-1)[2::7] = math.nan
                return [x]

            compare(
                name,
                Call(
                    distinct,
                    several,
                    {**told, "qs": tuple(q * scale for q in (0.25, 0.5, 0.9))},
                    values.PRECISE,
                    str(shape),
                    **QUANTILES,
                ),
            )
        for name, function in (("median", torch.quantile), ("nanmedian", torch.nanquantile)):
            compare(
                name,
                Call(
                    lambda source, shape=shape: [source.distinct(*shape)],
                    lambda x, f=function, axes=axes, keep=keep: kept(f(flat_last(x, axes), 0.5, -1), x, axes, keep),
                    told,
                    values.PRECISE,
                    str(shape),
                    **QUANTILES,
                ),
            )


def without_nan(x, axes, keep, ddof):
    """The variance of the numbers, NaN where they are no more than ddof."""
    lost = torch.isnan(x)
    count = (~lost).sum(axes, keepdim=True)
    mean = torch.where(lost, torch.zeros_like(x), x).sum(axes, keepdim=True) / count
    apart = torch.where(lost, torch.zeros_like(x), x - mean)
    left = (count if keep else (~lost).sum(axes, keepdim=False)) - ddof
    return (apart * apart).sum(axes, keepdim=keep) / torch.where(left > 0, left.to(x.dtype), math.nan)


for ddof in (0, 1):
    reduction(
        "nanvar",
        lambda x, axes, keep, ddof=ddof: without_nan(x, axes, keep, ddof),
        values.PRECISE,
        make=sprinkled,
        told={"ddof": ddof},
        ulps=64,
        gradient_ulps=512,
        specials=False,
        empty=False,
        layouts=values.LAYOUTS[:4],
    )
    reduction(
        "nanstd",
        lambda x, axes, keep, ddof=ddof: torch.sqrt(without_nan(x, axes, keep, ddof)),
        values.PRECISE,
        make=lambda shape: of(shape),
        told={"ddof": ddof},
        ulps=64,
        gradient_ulps=512,
        specials=False,
        empty=False,
        layouts=values.LAYOUTS[:4],
    )
def place_among_numbers(function, worst):
    """-1 where there are NaNs alone."""

    def call(x, axes, keep):
        if not x.is_floating_point():
            return flat_argument(function)(x, axes, keep)
        lost = torch.isnan(x)
        found = flat_argument(function)(torch.where(lost, torch.full_like(x, worst), x), axes, keep)
        return torch.where(lost.sum(axes, keepdim=keep) == math.prod(x.shape[axis] for axis in axes), -1, found)

    return call


for name, function, worst in (("nanargmax", torch.argmax, -math.inf), ("nanargmin", torch.argmin, math.inf)):
    reduction(
        name,
        place_among_numbers(function, worst),
        LARGER,
        empty=False,
        gradients=(),
        specials=False,
        make=lambda shape: lambda source: [holed(source.distinct(*shape))],
    )


def holed(x):
    if x.is_floating_point():
        x.view(-1)[1::5] = math.nan
    return x


def scanned_without_nan(function, instead):
    def call(x, axis):
        return function(torch.where(torch.isnan(x), torch.full_like(x, instead), x) if x.is_floating_point() else x, axis)

    return call


for shape, axis in SCANNED[:5]:
    for reverse in (False, True):
        for name, function, instead in (("nancumsum", torch.cumsum, 0), ("nancumprod", torch.cumprod, 1)):
            compare(
                name,
                Call(
                    sprinkled(shape),
                    reversed_along(scanned_without_nan(function, instead), axis, reverse),
                    {"axis": axis, "reverse": reverse},
                    LARGER,
                    str(shape),
                    ulps=64,
                    gradient_ulps=1024,
                    floor="largest",
                ),
            )
