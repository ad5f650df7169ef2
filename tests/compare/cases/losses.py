"""Softmax, losses, attention; what follows sequences."""

import math

import torch
import torch.nn.functional as F

import values
from table import Call, compare, of

LOOSE = {"ulps": 16, "gradient_ulps": 64, "floor": "largest", "zero_signs": False}
SHAPES = (((3, 5), 1), ((3, 5), 0), ((2, 4, 3), -2), ((0, 3), 1), ((2, 300), 1))


def rows_of_specials(source):
    """Each special value beside ordinary ones; a row of -inf alone."""
    special = source.specials()
    rows = torch.stack([special, torch.roll(torch.zeros_like(special) + 1, 1), torch.full_like(special, -2)], 1)
    return [torch.cat([rows, torch.full((1, 3), -math.inf, dtype=rows.dtype)])]


for shape, axis in SHAPES:
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        compare(
            name,
            Call(of(shape), lambda x, f=function, axis=axis: f(x, axis), {"axis": axis}, label=str(shape), **LOOSE),
        )
for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
    compare(
        name,
        Call(
            rows_of_specials,
            lambda x, f=function: f(x, 1),
            {"axis": 1},
            label="special values",
            layouts=("contiguous", "stepped"),
            **{**LOOSE, "second": False},
        ),
    )


def masked(source, shape, of_mask):
    return [source.values(*shape), source.whole(*of_mask, low=0, high=3).bool()]


def masked_softmax(axis, temperature, logarithm):
    def call(x, mask):
        mask = mask.expand(x.shape)
        hidden = torch.where(mask, x / temperature, -math.inf)
        if logarithm:
            return torch.where(mask, torch.log_softmax(hidden, axis), -math.inf)
        return torch.where(mask, torch.softmax(hidden, axis), torch.zeros_like(x))

    return call


for shape, of_mask, axis in (((3, 5), (3, 5), 1), ((2, 3, 4), (3, 1), 1), ((2, 3, 4), (4,), -1)):
    for temperature in (1.0, 2.5):
        told = {"axis": axis, "temperature": temperature}
        for name, logarithm in (("masked_softmax", False), ("masked_log_softmax", True)):
            compare(
                name,
                Call(
                    lambda source, shape=shape, of_mask=of_mask: masked(source, shape, of_mask),
                    masked_softmax(axis, temperature, logarithm),
                    told,
                    label=f"{shape} {of_mask}",
                    gradients=(0,),
                    layouts=("contiguous", "transposed", "stepped"),
                    **{**LOOSE, "second": not logarithm},
                ),
            )


def labelled(shape, axis):
    rest = [n for a, n in enumerate(shape) if a != axis % len(shape)]
    return lambda source: [source.values(*shape), source.whole(*rest, low=0, high=shape[axis])]


for shape, axis in SHAPES:
    for name, function in (("softmax_cross_entropy", F.cross_entropy), ("negative_log_likelihood", F.nll_loss)):

        def loss(x, labels, function=function, axis=axis):
            moved = x.movedim(axis, -1)
            return function(moved.reshape(-1, moved.shape[-1]), labels.flatten(), reduction="none").reshape(
                labels.shape
            )

        compare(
            name,
            Call(labelled(shape, axis), loss, {"axis": axis}, label=str(shape), gradients=(0,), outputs=(0,), **LOOSE),
        )


def padded(shape, axis, ignored, weighted=False):
    """Labels of which some are `ignored`; maybe a weight a class."""
    rest = [n for a, n in enumerate(shape) if a != axis % len(shape)]

    def make(source):
        labels = source.whole(*rest, low=0, high=shape[axis])
        labels = torch.where(source.whole(*rest, low=0, high=3) == 0, ignored, labels).to(labels.dtype)
        return [source.values(*shape), labels, *([source.values(shape[axis], low=0.1)] if weighted else [])]

    return make


def reduced(function, axis, **told):
    """PyTorch's loss of rows, without the mean."""

    def call(x, labels, weight=None):
        moved = x.movedim(axis, -1)
        rows = moved.reshape(-1, moved.shape[-1])
        told_weight = {"weight": weight} if weight is not None else {}
        return function(rows, labels.flatten().long(), reduction="none", **told, **told_weight).reshape(labels.shape)

    return call


# PyTorch gives weights no gradient; ours is compared with finite differences (tests/operator).
for shape, axis in SHAPES:
    for ignored in (-100, 1):
        rows = {"label": str(shape), "gradients": (0,), **LOOSE}
        for name, function in (("softmax_cross_entropy", F.cross_entropy), ("negative_log_likelihood", F.nll_loss)):
            told = {"axis": axis, "ignored": ignored}
            reference = reduced(function, axis, ignore_index=ignored)
            compare(name, Call(padded(shape, axis, ignored), reference, told, outputs=(0,), **rows))
        for smoothing in (0.0, 0.1):
            for weighted in (False, True):
                reference = reduced(F.cross_entropy, axis, ignore_index=ignored, label_smoothing=smoothing)
                told = {"axis": axis, "ignored": ignored, "smoothing": smoothing}
                compare(
                    "weighted_cross_entropy", Call(padded(shape, axis, ignored, weighted), reference, told, **rows)
                )
        compare(
            "weighted_likelihood",
            Call(
                padded(shape, axis, ignored, True),
                reduced(F.nll_loss, axis, ignore_index=ignored),
                {"axis": axis, "ignored": ignored},
                **rows,
            ),
        )


def attention(q, k, v, mask, told):
    """By its definition; a query that sees no key gives 0."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scale = told.get("scale") or 1 / math.sqrt(q.shape[-1])
    scores = q @ k.transpose(-1, -2) * scale
    seen = torch.ones_like(scores, dtype=torch.bool)
    if told.get("causal"):
        seen = seen.tril()
    if mask is not None and mask.dtype.is_floating_point:
        scores = scores + mask
    elif mask is not None:
        seen = seen & (mask != 0)
    hidden = torch.where(seen, scores, -math.inf)
    weights = torch.where(seen.any(-1, keepdim=True), torch.softmax(hidden, -1), torch.zeros_like(scores))
    return weights @ v


for shapes, told in (
    (((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)), {}),
    (((2, 2, 4, 4), (2, 2, 4, 4), (2, 2, 4, 4)), {"causal": True}),
    (((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)), {"scale": 0.3}),
    (((1, 4, 5, 4), (1, 1, 3, 4), (1, 1, 3, 4)), {"causal": True}),
    (((2, 2, 0, 4), (2, 2, 5, 4), (2, 2, 5, 4)), {}),
):
    compare(
        "scaled_dot_product_attention",
        Call(
            of(*shapes),
            lambda q, k, v, told=told: attention(q, k, v, None, told),
            told,
            label=str(shapes),
            **{**LOOSE, "ulps": 64, "gradient_ulps": 256},
        ),
    )
    q, k, _ = shapes
    for floating in (False, True):

        def with_mask(source, shapes=shapes, q=q, k=k, floating=floating):
            mask = source.values(q[2], k[2]) if floating else source.whole(q[0], 1, q[2], k[2], low=0, high=3).bool()
            return [*(source.values(*shape) for shape in shapes), mask]

        compare(
            "scaled_dot_product_attention",
            Call(
                with_mask,
                lambda q, k, v, m, told=told: attention(q, k, v, m, told),
                told,
                label=f"{shapes} {floating=}",
                gradients=(0, 1, 2, 3) if floating else (0, 1, 2),
                layouts=("contiguous", "transposed"),
                **{**LOOSE, "ulps": 64, "gradient_ulps": 256},
            ),
        )

for heads, shared, told in ((2, 0, {}), (4, 2, {"causal": True}), (3, 1, {"scale": 0.3})):

    def packed(x, heads=heads, shared=shared, told=told):
        each = shared or heads
        parts = x.reshape(2, 3, heads + 2 * each, 4).transpose(1, 2).split((heads, each, each), 1)
        return attention(*parts, None, told).transpose(1, 2).reshape(2, 3, heads * 4)

    compare(
        "packed_attention",
        Call(
            of((2, 3, (heads + 2 * (shared or heads)) * 4)),
            packed,
            {"heads": heads, "kv_heads": shared, **told},
            label=f"{heads} {shared}",
            **{**LOOSE, "ulps": 64, "gradient_ulps": 256},
        ),
    )


def recurrence(axis, reverse):
    def call(a, b):
        steps = range(b.shape[axis])
        y, made = None, []
        for i in reversed(steps) if reverse else steps:
            y = b.select(axis, i) + (a.select(axis, i) * y if y is not None else 0)
            made.append(y)
        return torch.stack(made[::-1] if reverse else made, axis)

    return call


for shape, axis in (((4, 3), 0), ((4, 3), 1), ((2, 40, 2), 1)):
    for reverse in (False, True):
        compare(
            "linear_recurrence",
            Call(
                of(shape, shape, low=-1.2, high=1.2),
                recurrence(axis, reverse),
                {"axis": axis, "reverse": reverse},
                label=str(shape),
                **{**LOOSE, "ulps": 64, "gradient_ulps": 256},
            ),
        )


def sequences(low, high, axis):
    # Steps along `axis`, sequences along the other of the first two.
    return lambda source: [source.values(4, 4, 3), source.whole(4, low=low, high=high)]


def each_sequence(x, lengths, axis, change):
    columns = [change(x.select(1 - axis, i), int(length)) for i, length in enumerate(lengths)]
    return torch.stack(columns, 0 if columns[0].dim() < x.dim() - 1 else 1 - axis)


for axis in (0, 1):
    compare(
        "sequence_mask",
        Call(
            sequences(0, 6, axis),
            lambda x, n, axis=axis: each_sequence(
                x, n, axis, lambda c, k: torch.cat([c[:k], torch.full_like(c[k:], 2)])
            ),
            {"axis": axis, "value": 2},
            values.NUMBERS,
            gradients=(0,),
        ),
    )
    compare(
        "sequence_last",
        Call(
            sequences(1, 5, axis),
            lambda x, n, axis=axis: each_sequence(x, n, axis, lambda c, k: c[k - 1]),
            {"axis": axis},
            values.ALL,
            gradients=(0,),
        ),
    )
    compare(
        "sequence_reverse",
        Call(
            sequences(0, 5, axis),
            lambda x, n, axis=axis: each_sequence(x, n, axis, lambda c, k: torch.cat([c[:k].flip(0), c[k:]])),
            {"axis": axis},
            values.ALL,
            gradients=(0,),
        ),
    )
for shape, axis in (((3, 4), 1), ((4, 3), 0), ((2, 6, 3), -2), ((0, 4), 1)):
    compare(
        "glu", Call(of(shape), lambda x, axis=axis: F.glu(x, axis), {"axis": axis}, label=str(shape), **LOOSE)
    )
    compare(
        "softmin", Call(of(shape), lambda x, axis=axis: F.softmin(x, axis), {"axis": axis}, label=str(shape), **LOOSE)
    )
