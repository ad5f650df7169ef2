"""Convolutions, pooling, sizes of images."""

import torch
import torch.nn.functional as F

import values
from table import Call, compare, of

SUMS = {"ulps": 64, "gradient_ulps": 128, "floor": "largest", "zero_signs": False}
SOME = ("contiguous", "transposed", "stride-0")


def convolutions(name, function, shapes, told, options):
    """With and without a bias."""
    for bias in (False, True):
        given = shapes if bias else shapes[:2]
        attributes = {**told, "bias": bias} if name == "convolution" else told
        compare(
            name,
            Call(
                of(*given),
                lambda x, w, b=None: function(x, w, b, **options),
                attributes,
                label=f"{' '.join(map(str, given))}",
                layouts=SOME,
                **SUMS,
            ),
        )


for x, w, told, options in (
    ((2, 3, 6, 5), (4, 3, 3, 3), {}, {}),
    ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 1), "pad": (1, 2)}, {"stride": (2, 1), "padding": (1, 2)}),
    ((1, 4, 7, 7), (6, 2, 3, 3), {"groups": 2, "dilation": (2, 1)}, {"groups": 2, "dilation": (2, 1)}),
    ((2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "pad": (1, 1)}, {"groups": 4, "padding": 1}),
    ((2, 3, 4, 4), (5, 3, 1, 1), {}, {}),
    ((0, 3, 4, 4), (5, 3, 3, 3), {}, {}),
):
    convolutions("convolution", F.conv2d, (x, w, (w[0],)), told, options)
for x, w, told, options in (
    ((2, 3, 9), (4, 3, 3), {}, {}),
    ((2, 4, 9), (6, 2, 2), {"stride": 2, "pad": (1,), "groups": 2}, {"stride": 2, "padding": 1, "groups": 2}),
    ((1, 2, 9), (3, 2, 3), {"dilation": 2}, {"dilation": 2}),
):
    convolutions("convolution1d", F.conv1d, (x, w, (w[0],)), told, options)
compare(
    "convolution1d",
    Call(of((2, 3, 9), (4, 3, 3)), lambda x, w: F.relu(F.conv1d(x, w)), {"relu": True}, layouts=SOME, **SUMS),
)
for x, w, told, options in (
    ((2, 3, 4, 5), (3, 4, 3, 3), {}, {}),
    (
        (2, 3, 4, 4),
        (3, 4, 3, 2),
        {"stride": (2, 3), "pad": (1, 0), "adj": (1, 2)},
        {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2)},
    ),
    ((1, 4, 3, 3), (4, 3, 2, 2), {"groups": 2, "dilation": (2, 1)}, {"groups": 2, "dilation": (2, 1)}),
):
    outputs = w[1] * told.get("groups", 1)
    convolutions("deconvolution", F.conv_transpose2d, (x, w, (outputs,)), told, options)
for x, w, told, options in (
    ((2, 3, 5), (3, 4, 3), {}, {}),
    (
        (2, 4, 5),
        (4, 3, 3),
        {"stride": 2, "pad": (1,), "adj": 1, "groups": 2},
        {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
    ),
):
    outputs = w[1] * told.get("groups", 1)
    convolutions("deconvolution1d", F.conv_transpose1d, (x, w, (outputs,)), told, options)

POOLS = (
    ((2, 2), (2, 2), (0, 0), False),
    ((3, 2), (2, 1), (1, 1), False),
    ((3, 3), (2, 2), (1, 0), True),
    ((2, 3), (3, 3), (0, 1), True),
)
for kernel, stride, pad, ceil in POOLS:
    for shape in ((2, 3, 7, 6), (0, 3, 7, 6), (1, 1, 5, 5)):
        told = {"kernel": kernel, "stride": stride, "pad": pad, "ceil_mode": ceil}
        compare(
            "max_pool2d",
            Call(
                lambda source, shape=shape: [source.distinct(*shape)],
                lambda x, k=kernel, s=stride, p=pad, c=ceil: F.max_pool2d(x, k, s, p, ceil_mode=c),
                told,
                label=str(shape),
                layouts=values.LAYOUTS[:4],
            ),
        )
        for include in (True, False):
            compare(
                "avg_pool2d",
                Call(
                    of(shape),
                    lambda x, k=kernel, s=stride, p=pad, c=ceil, i=include: F.avg_pool2d(x, k, s, p, c, i),
                    {**told, "count_include_pad": include},
                    label=str(shape),
                    **SUMS,
                ),
            )
        if pad == (0, 0):
            # PyTorch does not take magnitudes, and its windows that hang over the edge count as full ones.
            compare(
                "lp_pool2d",
                Call(
                    of(shape, low=0.2, high=3),
                    lambda x, k=kernel, s=stride: F.lp_pool2d(x, 3.0, k, s),
                    {**told, "p": 3.0},
                    label=str(shape),
                    **{**SUMS, "gradient_ulps": 256},
                ),
            )
for kernel, stride, pad, ceil in ((2, 2, 0, False), (3, 2, 1, False), (3, 2, 1, True)):
    told = {"kernel": kernel, "stride": stride, "pad": (pad,), "ceil_mode": ceil}
    compare(
        "max_pool1d",
        Call(
            lambda source: [source.distinct(2, 3, 9)],
            lambda x, k=kernel, s=stride, p=pad, c=ceil: F.max_pool1d(x, k, s, p, ceil_mode=c),
            told,
            layouts=values.LAYOUTS[:4],
        ),
    )
    compare(
        "avg_pool1d",
        Call(of((2, 3, 9)), lambda x, k=kernel, s=stride, p=pad, c=ceil: F.avg_pool1d(x, k, s, p, c), told, **SUMS),
    )
compare(
    "lp_pool1d",
    Call(
        of((2, 3, 9), low=0.2, high=3),
        lambda x: F.lp_pool1d(x, 2.0, 3, 2),
        {"p": 2.0, "kernel": 3, "stride": 2},
        **{**SUMS, "gradient_ulps": 256},
    ),
)
for name, function in (("max_pool2d", F.adaptive_max_pool2d), ("avg_pool2d", F.adaptive_avg_pool2d)):
    compare(
        name,
        Call(
            lambda source: [source.distinct(2, 3, 5, 4)],
            lambda x, f=function: f(x, 1),
            {"global": True},
            label="global",
            layouts=values.LAYOUTS[:4],
            **SUMS,
        ),
    )
for size in ((1, 1), (3, 2), (5, 7)):
    compare(
        "adaptive_avg_pool2d",
        Call(of((2, 3, 6, 5)), lambda x, size=size: F.adaptive_avg_pool2d(x, size), {"output_size": size}, **SUMS),
    )
    compare(
        "adaptive_max_pool2d",
        Call(
            lambda source: [source.distinct(2, 3, 6, 5)],
            lambda x, size=size: F.adaptive_max_pool2d(x, size),
            {"output_size": size},
            layouts=values.LAYOUTS[:4],
            **SUMS,
        ),
    )


def pool_specials(source):
    special = source.specials()
    return [torch.stack([special, torch.roll(special, 2)])[:, :30].reshape(1, 2, 5, 6)]


compare(
    "max_pool2d",
    Call(
        pool_specials,
        lambda x: F.max_pool2d(x, (2, 2)),
        {"kernel": (2, 2)},
        label="special values",
        gradients=(),
        zero_signs=False,
    ),
)
compare(
    "avg_pool2d",
    Call(
        pool_specials,
        lambda x: F.avg_pool2d(x, (2, 2)),
        {"kernel": (2, 2)},
        label="special values",
        gradients=(),
        ulps=16,
        zero_signs=False,
    ),
)
for size in ((8, 9), (3, 2), (4, 5), (1, 1)):
    compare(
        "resize2d", Call(of((2, 3, 4, 5)), lambda x, size=size: F.interpolate(x, size, mode="nearest"), {"size": size})
    )
    for corners in (False, True):
        compare(
            "resize2d",
            Call(
                of((2, 3, 4, 5)),
                lambda x, size=size, corners=corners: F.interpolate(x, size, mode="bilinear", align_corners=corners),
                {"size": size, "bilinear": True, "align_corners": corners},
                **SUMS,
            ),
        )
for scale in (1, 2, 3):
    compare(
        "upsampling",
        Call(
            of((2, 3, 4, 5)),
            lambda x, scale=scale: F.interpolate(x, scale_factor=scale, mode="nearest"),
            {"scale": scale},
        ),
    )
    compare(
        "upsampling",
        Call(
            of((2, 3, 4, 5)),
            lambda x, scale=scale: F.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=False),
            {"scale": scale, "bilinear": True},
            **SUMS,
        ),
    )


def boxes(source):
    made = []
    for count in (3, 4):
        corner, extent = source.values(count, 2, low=0, high=3), source.values(count, 2, low=1, high=3)
        made.append(torch.cat([corner, corner + extent], 1))
    return made


def intersection_over_union(a, b):
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


compare(
    "box_iou",
    Call(
        boxes,
        intersection_over_union,
        layouts=("contiguous", "transposed", "stepped"),
        types=values.PRECISE,
        **{**SUMS, "second": False},
    ),
)
for size in (1, 3, 7):
    compare(
        "adaptive_avg_pool1d",
        Call(of((2, 3, 7)), lambda x, size=size: F.adaptive_avg_pool1d(x, size), {"output_size": size}, **SUMS),
    )
    compare(
        "adaptive_max_pool1d",
        Call(
            lambda source: [source.distinct(2, 3, 7)],
            lambda x, size=size: F.adaptive_max_pool1d(x, size),
            {"output_size": size},
            layouts=values.LAYOUTS[:4],
            **SUMS,
        ),
    )
