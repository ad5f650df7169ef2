"""Covariances, integrals, and what is among what."""

import torch

import values
from table import Call, compare, of

STATISTICS = {"ulps": 64, "gradient_ulps": 512, "floor": "largest", "zero_signs": False}
for shape in ((3, 7), (2, 40), (6,)):
    for ddof in (0, 1):
        compare(
            "cov",
            Call(
                of(shape),
                lambda x, ddof=ddof: torch.cov(x, correction=ddof),
                {"ddof": ddof},
                ("float32", "float64"),
                str(shape),
                **STATISTICS
            ),
        )
    # One variable that does not vary has no correlation, and PyTorch's and Sluice's second gradients of none differ.
    layouts = values.LAYOUTS[:4] if len(shape) == 1 else values.LAYOUTS
    compare(
        "corrcoef",
        Call(of(shape), torch.corrcoef, {}, ("float32", "float64"), str(shape), layouts=layouts, **STATISTICS),
    )
compare("cov", Call(of((7, 3)), lambda x: torch.cov(x.T), {"rowvar": False}, ("float32", "float64"), **STATISTICS))
for shape, axis in (((3, 7), -1), ((3, 7), 0), ((2, 1, 3), 1), ((2, 0), 1)):
    compare(
        "trapezoid",
        Call(
            of(shape),
            lambda y, axis=axis: torch.trapezoid(y, dx=0.5, dim=axis),
            {"axis": axis, "dx": 0.5},
            label=str(shape),
            **STATISTICS
        ),
        Call(
            of(shape, shape),
            lambda y, x, axis=axis: torch.trapezoid(y, x, dim=axis),
            {"axis": axis},
            label=f"{shape} at places",
            **STATISTICS
        ),
    )
for invert in (False, True):
    compare(
        "isin",
        Call(
            lambda source: [source.values(4, 5), source.values(3, 3)],
            lambda x, among, invert=invert: torch.isin(x, among, invert=invert),
            {"invert": invert},
            values.NUMBERS,
            gradients=(),
        ),
    )
for right in (False, True):
    compare(
        "digitize",
        Call(
            lambda source: [source.values(4, 5), source.values(6).sort().values],
            lambda x, edges, right=right: torch.bucketize(x, edges, right=not right),
            {"right": right},
            values.NUMBERS,
            layouts=values.LAYOUTS[:4],
            gradients=(),
        ),
    )
