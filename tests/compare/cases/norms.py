"""Normalisations."""

import torch
import torch.nn.functional as F

import values
from table import Call, compare

LOOSE = {"ulps": 64, "gradient_ulps": 512, "floor": "largest", "zero_signs": False}
SPREAD = ("contiguous", "transposed", "stepped", "flipped")


def with_parameters(shape, *parameters):
    return lambda source: [source.values(*shape), *(source.values(*one, low=0.5, high=2) for one in parameters)]


def along(x, axis, function):
    return function(x.movedim(axis, -1)).movedim(-1, axis)


for shape, axis in (((3, 8), -1), ((2, 3, 5), 1), ((4, 0), 0), ((0, 4), 1), ((3, 300), 1)):
    for eps in (1e-5, 0.1):
        n, told = (shape[axis],), {"axis": axis, "eps": eps}
        compare(
            "layer_norm",
            Call(
                with_parameters(shape, n, n),
                lambda x, g, b, axis=axis, eps=eps: along(x, axis, lambda y: F.layer_norm(y, g.shape, g, b, eps)),
                told,
                label=str(shape),
                outputs=(0,),
                layouts=SPREAD,
                **LOOSE
            ),
        )
        compare(
            "rms_norm",
            Call(
                with_parameters(shape, n),
                lambda x, g, axis=axis, eps=eps: along(x, axis, lambda y: F.rms_norm(y, g.shape, g, eps)),
                told,
                label=str(shape),
                outputs=(0,),
                layouts=SPREAD,
                **LOOSE
            ),
        )
for shape, groups in (((2, 6, 4), 3), ((2, 6, 3, 3), 2), ((2, 4), 1), ((3, 4, 5), 4)):
    c = (shape[1],)
    compare(
        "group_norm",
        Call(
            with_parameters(shape, c, c),
            lambda x, g, b, groups=groups: F.group_norm(x, groups, g, b, 1e-3),
            {"num_groups": groups, "eps": 1e-3},
            label=str(shape),
            outputs=(0,),
            layouts=SPREAD,
            **LOOSE
        ),
    )
    if len(shape) > 2:
        compare(
            "instance_norm",
            Call(
                with_parameters(shape, c, c),
                lambda x, g, b: F.instance_norm(x, weight=g, bias=b, eps=1e-3),
                {"eps": 1e-3},
                label=str(shape),
                outputs=(0,),
                layouts=SPREAD,
                **LOOSE
            ),
        )


def batch_norm(batch_stats, momentum, axis, fix_gamma):
    """MXNet's: running statistics keep `momentum` of what they were, and take the biased variance."""

    def call(x, g, b, mean, variance):
        moved = x.movedim(axis, 1)
        g = torch.ones_like(g) + 0 * g if fix_gamma else g
        if not batch_stats:
            return F.batch_norm(moved, mean, variance, g, b, False, 0, 1e-3).movedim(1, axis), mean, variance
        y = F.batch_norm(moved, None, None, g, b, True, 0, 1e-3).movedim(1, axis)
        others = [a for a in range(x.dim()) if a != axis]
        kept = momentum * mean + (1 - momentum) * x.detach().mean(others).to(mean.dtype)
        return y, kept, momentum * variance + (1 - momentum) * x.detach().var(others, correction=0).to(mean.dtype)

    return call


for shape, axis in (((6, 3), 1), ((4, 3, 2, 5), 1), ((4, 2, 3), 2)):
    c = (shape[axis],)
    # By its name it takes the statistics that its attribute says, in whatever mode the thread is.
    for batch_stats in (False, True):
        for fix_gamma in (False, True):
            told = {"eps": 1e-3, "momentum": 0.8, "axis": axis, "fix_gamma": fix_gamma, "batch_stats": batch_stats}
            compare(
                "batch_norm" if batch_stats else "batch_norm_predict",
                Call(
                    with_parameters(shape, c, c, c, c),
                    batch_norm(batch_stats, 0.8, axis, fix_gamma),
                    told,
                    label=str(shape),
                    gradients=(0, 1, 2),
                    outputs=(0,),
                    mutated=(3, 4),
                    layouts=SPREAD,
                    types=values.PRECISE,
                    **LOOSE
                ),
            )
for mode, axes in (("instance", (1, 2, 3)), ("channel", (1,)), ("spatial", (2, 3))):
    compare(
        "l2_normalization",
        Call(
            with_parameters((2, 3, 4, 2)),
            lambda x, axes=axes: x / torch.sqrt((x * x).sum(axes, keepdim=True) + 1e-3),
            {"eps": 1e-3, "mode": mode},
            outputs=(0,),
            **LOOSE
        ),
    )
for size in (1, 3, 4):
    compare(
        "local_response_norm",
        Call(
            with_parameters((2, 6, 3, 2)),
            lambda x, size=size: F.local_response_norm(x, size, 0.1, 0.6, 1.5),
            {"nsize": size, "alpha": 0.1, "beta": 0.6, "knorm": 1.5},
            outputs=(0,),
            **LOOSE
        ),
    )
compare(
    "local_response_norm",
    Call(
        with_parameters((2, 6)),
        lambda x: F.local_response_norm(x[:, :, None], 3, 0.1, 0.6, 1.5)[:, :, 0],
        {"nsize": 3, "alpha": 0.1, "beta": 0.6, "knorm": 1.5},
        label="two axes",
        outputs=(0,),
        **LOOSE
    ),
)
compare("dropout", Call(with_parameters((3, 5)), lambda x: x + 0, {"rate": 0.0}, label="of none", outputs=(0,)))
compare(
    "dropout",
    Call(with_parameters((3, 5)), lambda x: x * 0, {"rate": 1.0}, label="of all", outputs=(0,), zero_signs=False),
)
