"""Reductions, scans, orders."""

import math

import torch

import exact
import values
from table import Call, compare, of

SHAPES = (
    ((3, 4), (0,)),
    ((3, 4), (1,)),
    ((3, 4), ()),
    ((2, 3, 5), (0, 2)),
    ((2, 3, 5), (1,)),
    ((2, 0, 3), (0,)),
    ((70, 3), (0,)),
    ((3, 300), (1,)),
)
EMPTY = (((0, 3), (0,)), ((2, 0), (1,)), ((0,), ()))


def every(x, axes):
    return axes or tuple(range(x.dim()))


def reduction(
    name, reference, types=values.ALL, empty=True, specials=True, low=-3.0, high=3.0, told=None, make=None, **options
):
    """`reference(x, axes, keepdims)`."""
    told = told or {}
    for shape, axes in SHAPES + (EMPTY if empty else ()):
        for keepdims in (False, True):

            def call(x, axes=axes, keepdims=keepdims):
                return reference(x, every(x, axes), keepdims)

            maker = make(shape) if make else of(shape, low=low, high=high)
            compare(
                name,
                Call(
                    maker,
                    call,
                    {"axes": axes, "keepdims": keepdims, **told},
                    types,
                    str(shape),
                    zero_signs=False,
                    **{"floor": "largest", **options}
                ),
            )
    if specials:

        def rows(source):
            special = source.specials()
            return [torch.stack([special, torch.roll(special, 1), torch.ones_like(special)])]

        compare(
            name,
            Call(
                rows,
                lambda x: reference(x, (0,), False),
                {"axes": (0,), "keepdims": False, **told},
                types,
                "special values",
                layouts=("contiguous", "stepped"),
                zero_signs=False,
                **{"floor": "largest", **options, "second": False}
            ),
        )


def product(x, axes, keepdims):
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keepdims)
    return x


def each_axis(function):
    """For functions of PyTorch that know one axis: one after the other."""

    def reduce(x, axes, keepdims):
        for axis in sorted(axes, reverse=True):
            x = function(x, axis, keepdims)
        return x

    return reduce


def flat_argument(function):
    """The place among the elements of the reduced axes, row by row."""

    def reduce(x, axes, keepdims):
        kept = [axis for axis in range(x.dim()) if axis not in axes]
        flat = x.permute(*kept, *axes).reshape(
            [x.shape[axis] for axis in kept] + [math.prod(x.shape[axis] for axis in axes)]
        )
        result = function(flat, -1)
        return result.reshape([1 if axis in axes else x.shape[axis] for axis in range(x.dim())]) if keepdims else result

    return reduce


LARGER = values.INTEGERS + values.FLOATING
reduction("sum", lambda x, axes, keep: torch.sum(x, axes, keepdim=keep), ulps=64)
reduction(
    "mean",
    lambda x, axes, keep: torch.mean(x if x.dtype.is_floating_point else x.to(torch.float32), axes, keepdim=keep),
    ulps=32,
)
reduction("prod", product, ulps=32, gradient_ulps=256, low=-1.2, high=1.2)
reduction("max", lambda x, axes, keep: torch.amax(x, axes, keepdim=keep), empty=False)
reduction("min", lambda x, axes, keep: torch.amin(x, axes, keepdim=keep), empty=False)
# PyTorch keeps uint8 here, NumPy does not.
reduction("any", each_axis(torch.any), gradients=(), dtypes_differ=True)
reduction("all", each_axis(torch.all), gradients=(), dtypes_differ=True)
for ddof in (0, 1):
    for name, function in (("variance", torch.var), ("standard_deviation", torch.std)):
        reduction(
            name,
            lambda x, axes, keep, f=function, ddof=ddof: f(x, axes, correction=ddof, keepdim=keep),
            values.FLOATING,
            told={"ddof": ddof},
            ulps=32,
            gradient_ulps=128,
            empty=ddof == 0,
        )
reduction("logsumexp", lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep), LARGER, ulps=8, gradient_ulps=64)
for name, order in (("l1_norm", 1), ("l2_norm", 2), ("max_norm", math.inf)):
    reduction(
        name,
        lambda x, axes, keep, order=order: torch.linalg.vector_norm(x, order, axes, keepdim=keep),
        values.FLOATING,
        ulps=16,
        gradient_ulps=64,
        empty=order != math.inf,
    )
# The number of nonzeros, order 0, has no gradient; PyTorch gives zeros.
for order in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, math.inf, -math.inf):
    reduction(
        "norm",
        lambda x, axes, keep, order=order: torch.linalg.vector_norm(x, order, axes, keepdim=keep),
        values.FLOATING,
        empty=False,
        told={"order": order},
        ulps=64,
        gradient_ulps=4096,
        specials=False,
        low=0.3,
        gradients=None if order else (),
    )


def sprinkled(shape):
    """Every third is 0, and of floating types every fifth no number."""

    def make(source):
        x = source.values(*shape)
        x.view(-1)[::3] = 0
        if x.dtype.is_floating_point:
            x.view(-1)[1::5] = math.nan
        return [x]

    return make


reduction("count_nonzero", lambda x, axes, keep: (x != 0).sum(axes, keepdim=keep), make=sprinkled, gradients=())
reduction("nansum", lambda x, axes, keep: torch.nansum(x, axes, keepdim=keep), make=sprinkled, ulps=64)
reduction("nanmean", exact.nanmean, values.FLOATING, make=sprinkled, ulps=32, gradient_ulps=64)
reduction(
    "nanprod",
    lambda x, axes, keep: product(torch.where(torch.isnan(x), torch.ones_like(x), x), axes, keep),
    make=sprinkled,
    ulps=32,
    gradient_ulps=512,
)
for name, function, start in (("nanmax", torch.amax, -math.inf), ("nanmin", torch.amin, math.inf)):

    def without_nan(x, axes, keep, function=function, start=start):
        if not x.dtype.is_floating_point:
            return function(x, axes, keepdim=keep)
        lost = torch.isnan(x).all(axes[0], keepdim=True) if len(axes) == 1 else torch.isnan(x).flatten().all()
        result = function(torch.where(torch.isnan(x), torch.full_like(x, start), x), axes, keepdim=keep)
        lost = lost if keep or lost.dim() == 0 else lost.squeeze(axes[0])
        return torch.where(lost, torch.full_like(result, math.nan), result)

    reduction(name, without_nan, make=sprinkled, empty=False)
for name, function in (("argmax", torch.argmax), ("argmin", torch.argmin)):
    # Of equal elements PyTorch takes any one: here no two are equal.
    reduction(
        name,
        flat_argument(function),
        LARGER,
        empty=False,
        gradients=(),
        specials=False,
        make=lambda shape: lambda source: [source.distinct(*shape)],
    )

SCANNED = (((3, 4), 0), ((3, 4), 1), ((2, 3, 5), 1), ((2, 0, 3), 1), ((2, 0, 3), 0), ((3, 300), 1), ((2, 1100, 2), 1))


def reversed_along(function, axis, reverse):
    if not reverse:
        return lambda x: function(x, axis)

    def call(x):
        result = function(x.flip(axis), axis)
        return tuple(part.flip(axis) for part in result) if isinstance(result, tuple) else result.flip(axis)

    return call


def with_places(function, reverse):
    """torch.cummax, with the places counted from the front."""

    def call(x, axis):
        result, places = function(x, axis)
        return result, x.shape[axis] - 1 - places if reverse else places

    return call


for shape, axis in SCANNED:
    large = max(shape) > 100
    for reverse in (False, True):
        told = {"axis": axis, "reverse": reverse}
        compare(
            "cumsum",
            Call(
                of(shape),
                reversed_along(torch.cumsum, axis, reverse),
                told,
                values.ALL,
                str(shape),
                ulps=64,
                gradient_ulps=64,
                floor="largest",
            ),
        )
        compare(
            "cumprod",
            Call(
                of(shape, low=-1.05, high=1.05) if large else of(shape),
                reversed_along(torch.cumprod, axis, reverse),
                told,
                values.ALL,
                str(shape),
                ulps=64,
                gradient_ulps=1024,
                second=not large,
                floor="largest",
            ),
        )
        for name, function in (("cummax", torch.cummax), ("cummin", torch.cummin)):
            compare(
                name,
                Call(
                    of(shape),
                    reversed_along(with_places(function, reverse), axis, reverse),
                    told,
                    values.ALL,
                    str(shape),
                    zero_signs=False,
                    floor="largest",
                    gradient_ulps=64,
                ),
            )
for n in (0, 1, 2, 5):
    for shape, axis in SCANNED[:5]:
        compare(
            "diff",
            Call(
                of(shape),
                lambda x, n=n, axis=axis: torch.diff(x, n, axis),
                {"axis": axis, "n": n},
                values.ALL,
                str(shape),
                floor=16.0,
                zero_signs=False,
            ),
        )

ORDERED = (((3, 7), 1), ((3, 7), 0), ((2, 5, 3), 1), ((0, 4), 1), ((2, 300), 1))


def sorting(name, axis, largest):
    def both(x):
        values_, places = torch.sort(x, dim=axis, descending=largest, stable=True)
        return {"sort": values_, "argsort": places, "sort_with_indices": (values_, places)}[name]

    return both


for shape, axis in ORDERED:
    for falling in (False, True):
        for name in ("sort", "argsort", "sort_with_indices"):
            compare(
                name,
                Call(
                    of(shape),
                    sorting(name, axis, falling),
                    {"axis": axis, "descending": falling},
                    values.ALL,
                    str(shape),
                    gradients=() if name == "argsort" else None,
                ),
            )
        for k in (0, 1, min(3, shape[axis])):
            compare(
                "topk",
                Call(
                    lambda source, shape=shape: [source.distinct(*shape)],
                    lambda x, k=k, axis=axis, falling=falling: tuple(torch.topk(x, k, axis, falling, True)),
                    {"axis": axis, "k": k, "largest": falling},
                    values.PRECISE if 300 in shape else LARGER,
                    str(shape),
                    layouts=values.LAYOUTS[:4],
                ),
            )
for right in (False, True):
    for shapes in (((9,), (4, 3)), ((3, 9), (3, 4)), ((0,), (3,)), ((5,), ())):
        compare(
            "searchsorted",
            Call(
                lambda source, shapes=shapes: [source.values(*shapes[0]).sort(-1).values, source.values(*shapes[1])],
                lambda a, b, right=right: torch.searchsorted(a, b, right=right),
                {"right": right},
                values.NUMBERS,
                str(shapes),
                layouts=values.LAYOUTS[:3],
                gradients=(),
            ),
        )
compare(
    "bincount",
    Call(
        lambda source: [source.whole(40, low=0, high=9, dtype=source.dtype)],
        lambda x: torch.bincount(x, minlength=12),
        {"bins": 12},
        values.INTEGERS,
        gradients=(),
    ),
)
reduction(
    "ptp",
    lambda x, axes, keepdims: torch.amax(x, axes, keepdims) - torch.amin(x, axes, keepdims),
    types=values.NUMBERS,
    empty=False,
    specials=False,
)
