"""Functions of one array, and activations."""

import torch
import torch.nn.functional as F

import exact
import values
from table import Call, compare, of

WITH_INTEGERS = values.INTEGERS + values.FLOATING


def unary(name, reference, low=-3.0, high=3.0, types=WITH_INTEGERS, **options):
    """Shapes with layouts, none and no elements, and special values."""
    own = dict(options)
    attributes = own.pop("attributes", {})
    compare(
        name,
        Call(of((4, 5), low=low, high=high), reference, attributes, types=types, **own),
        Call(of((), low=low, high=high), reference, attributes, types, "0 axes", layouts=("contiguous",), **own),
        Call(of((3, 0), low=low, high=high), reference, attributes, types, "empty", layouts=("contiguous",), **own),
        # Long enough for vectors and what is left beside them.
        Call(of((3, 67), low=low, high=high), reference, attributes, types, "long", **{**own, "second": False}),
        Call(
            lambda source: [source.specials()],
            reference,
            attributes,
            types,
            "special values",
            layouts=("contiguous", "stepped"),
            **{**own, "second": False}
        ),
    )


def numbers(name, reference, **options):
    unary(name, reference, types=values.NUMBERS, **options)


numbers("abs", torch.abs)
numbers("negative", torch.negative)
numbers("sign", torch.sign, zero_signs=False)
numbers("square", torch.square)
numbers("floor", torch.floor)
numbers("ceil", torch.ceil)
numbers("round", torch.round)
numbers("trunc", torch.trunc)
numbers("relu", torch.relu, zero_signs=False)
for low, high in ((-1, 1), (-0.5, 2.5)):
    whole = isinstance(low, int)
    unary(
        "clip",
        lambda x, low=low, high=high: exact.clip(x, low, high),
        types=values.NUMBERS if whole else values.FLOATING,
        attributes={"low": low, "high": high},
        zero_signs=False,
    )

for operator, function, low, high in (
    ("sqrt", torch.sqrt, 0.2, 4),
    ("rsqrt", torch.rsqrt, 0.2, 4),
    ("reciprocal", torch.reciprocal, 0.3, 3),
    ("exp", torch.exp, -9, 9),
    ("exp2", torch.exp2, -9, 9),
    ("expm1", torch.expm1, -9, 9),
    ("log", torch.log, 0.2, 40),
    ("log2", torch.log2, 0.2, 40),
    ("log10", torch.log10, 0.2, 40),
    ("log1p", torch.log1p, -0.9, 9),
    ("sin", torch.sin, -30, 30),
    ("cos", torch.cos, -30, 30),
    ("tan", torch.tan, -1.4, 1.4),
    ("arcsin", torch.asin, -0.95, 0.95),
    ("arccos", torch.acos, -0.95, 0.95),
    ("arctan", torch.atan, -9, 9),
    ("sinh", torch.sinh, -6, 6),
    ("cosh", torch.cosh, -6, 6),
    ("tanh", torch.tanh, -4, 4),
    ("arcsinh", torch.asinh, -9, 9),
    ("arccosh", torch.acosh, 1.1, 9),
    ("arctanh", torch.atanh, -0.95, 0.95),
    ("sinc", exact.sinc, -4, 4),
    ("degrees", torch.rad2deg, -9, 9),
    ("radians", torch.deg2rad, -400, 400),
    ("erf", torch.erf, -3, 3),
    ("erfc", torch.erfc, -3, 5),
    ("sigmoid", torch.sigmoid, -9, 9),
):
    unary(operator, function, low, high)
# Near their zeros these lose what the numbers before them lost: the error is held to that of a result of about one.
for operator, function, low, high in (
    ("erfinv", torch.erfinv, -0.95, 0.95),
    ("gammaln", exact.gammaln, 0.3, 9),
    ("digamma", exact.digamma, 0.3, 9),
    ("logit", torch.logit, 0.05, 0.95),
):
    unary(operator, function, low, high, floor=1.0, ulps=8, gradient_ulps=64)
unary("gamma", exact.gamma, 0.4, 5, floor=1.0, ulps=8, types=values.FLOATING)
for order in (0, 1, 3):
    unary(
        "polygamma",
        lambda x, order=order: exact.polygamma(order, x),
        0.4,
        6,
        attributes={"n": order},
        floor=1.0,
        ulps=32,
        gradient_ulps=64,
    )
unary("cbrt", exact.cbrt, -9, 9)
unary("rcbrt", lambda x: 1 / exact.cbrt(x), 0.2, 9, types=values.FLOATING)


def activation(name, reference, *bounds, **options):
    """Sluice lifts whole numbers to float32 first; PyTorch has no such kernels, or keeps them."""
    unary(name, reference, *bounds, types=values.FLOATING, **options)


activation("relu6", F.relu6, -9, 9, zero_signs=False)
for slope in (0.01, 0.3):
    activation("leaky_relu", lambda x, slope=slope: F.leaky_relu(x, slope), attributes={"slope": slope})
for alpha in (1.0, 0.4):
    activation("elu", lambda x, alpha=alpha: F.elu(x, alpha), attributes={"alpha": alpha})
    activation("celu", lambda x, alpha=alpha: exact.celu(x, alpha), attributes={"alpha": alpha}, ulps=8)
activation("log_sigmoid", F.logsigmoid, -9, 9, floor=1.0)
activation("selu", F.selu)
activation("gelu", exact.gelu, ulps=8)
activation("gelu_tanh", exact.gelu_tanh, ulps=32)
activation("silu", F.silu, -9, 9)
activation("mish", F.mish, ulps=8)
activation(
    "hard_sigmoid", lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1), -4, 4, attributes={"alpha": 0.2, "beta": 0.5}, floor=0.5
)
# PyTorch rounds a sixth to float32.
activation(
    "hard_sigmoid", lambda x: torch.clamp(x / 6 + 0.5, 0, 1), -4, 4, attributes={"alpha": 1 / 6, "beta": 0.5}, floor=0.5
)
activation("hard_swish", F.hardswish, -4, 4, floor=0.5, zero_signs=False)
for low, high in ((-1.0, 1.0), (-0.25, 2.0)):
    activation(
        "hard_tanh", lambda x, low=low, high=high: F.hardtanh(x, low, high), attributes={"low": low, "high": high}
    )
for lambd in (0.5, 1.25):
    activation(
        "hard_shrink", lambda x, lambd=lambd: F.hardshrink(x, lambd), attributes={"lambd": lambd}, zero_signs=False
    )
    activation(
        "softshrink", lambda x, lambd=lambd: F.softshrink(x, lambd), attributes={"lambd": lambd}, zero_signs=False
    )
# PyTorch gives x itself beyond 20: what is lost there is less than half a unit only in the narrow types.
activation("softplus", lambda x: F.softplus(x, threshold=100))
activation("softsign", F.softsign)
for limit, value in ((0.0, 0.0), (0.5, -7.0)):
    activation(
        "threshold",
        lambda x, limit=limit, value=value: F.threshold(x, limit, value),
        attributes={"limit": limit, "value": value},
        zero_signs=False,
    )
for scalar in (1.0, 0.5, 2.0):
    activation(
        "smooth_l1",
        lambda x, beta=scalar**-2: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=beta),
        attributes={"scalar": scalar},
    )

unary("isfinite", torch.isfinite, types=values.ALL, gradients=())
unary("isinf", torch.isinf, types=values.ALL, gradients=())
unary("isnan", torch.isnan, types=values.ALL, gradients=())
unary("isposinf", torch.isposinf, types=values.ALL, gradients=())
unary("isneginf", torch.isneginf, types=values.ALL, gradients=())
unary("signbit", torch.signbit, types=values.ALL, gradients=())
unary("logical_not", torch.logical_not, types=values.ALL, gradients=())
unary("bitwise_not", torch.bitwise_not, -99, 99, types=("bool", *values.INTEGERS), gradients=())
for told in ({}, {"nan": 2.5, "posinf": 7.0, "neginf": -9.0}):
    unary("nan_to_num", lambda x, told=told: torch.nan_to_num(x, **told), types=("float64",), attributes=told)
unary(
    "nan_to_num",
    lambda x: torch.nan_to_num(x, 1.0, 3.0, -2.0),
    types=values.NUMBERS,
    attributes={"nan": 1.0, "posinf": 3.0, "neginf": -2.0},
)
numbers("positive", torch.positive)
unary(
    "frexp",
    lambda x: tuple(torch.frexp(exact.lifted(x))),
    types=values.FLOATING,
)
unary(
    "modf",
    lambda x: (torch.where(torch.isinf(x), torch.zeros_like(x), torch.frac(x)), torch.trunc(x)),
    types=values.FLOATING,
    zero_signs=False,
)
