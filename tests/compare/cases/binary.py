"""Functions of two arrays or of an array and a number, comparisons, logic, bits."""

import itertools

import torch

import values
from table import Call, compare, of

SHAPES = (
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)),
    ((), (3, 4)),
    ((5,), ()),
    ((0, 3), (1, 3)),
    ((2, 3, 0), (1,)),
    ((3, 67), (67,)),
)
FLAT = ("contiguous", "stepped")


def pairs_of_specials(source):
    """Each special value beside each."""
    special = source.specials()
    pairs = torch.cartesian_prod(special, special)
    return [pairs[:, 0].contiguous(), pairs[:, 1].contiguous()]


def binary(
    name,
    reference,
    low=-3.0,
    high=3.0,
    low_b=None,
    high_b=None,
    types=values.NUMBERS,
    specials=True,
    number=2,
    **options,
):
    """Shapes that broadcast, in layouts; special values in pairs; a number on either side."""
    low_b, high_b = low if low_b is None else low_b, high if high_b is None else high_b

    def maker(shape_a, shape_b):
        return lambda source: [
            source.values(*shape_a, low=low, high=high),
            source.values(*shape_b, low=low_b, high=high_b),
        ]

    for shape_a, shape_b in SHAPES:
        # Gradients are added up where an operand was broadcast, of terms that cancel.
        told = {**options, "gradient_ulps": options.get("gradient_ulps", 16.0) * (1 if shape_a == shape_b else 4)}
        layouts = values.LAYOUTS if shape_a and shape_b else FLAT
        label = f"{shape_a} {shape_b}"
        compare(name, Call(maker(shape_a, shape_b), reference, types=types, label=label, layouts=layouts, **told))
    if specials:
        compare(
            name,
            Call(
                pairs_of_specials,
                reference,
                types=types,
                label="special values",
                layouts=FLAT,
                **{**options, "second": False},
            ),
        )
    if number is not None:
        beside_numbers(name, reference, (low, high), (low_b, high_b), types, number, options)


def beside_numbers(name, reference, bounds_a, bounds_b, types, number, options):
    """A whole number and one between, on either side of an array."""
    floating = tuple(dtype for dtype in types if dtype in values.FLOATING)
    for given, first in itertools.product((number, number + 0.5), (False, True)):

        def with_number(x, given=given, first=first):
            other = torch.full_like(x, given, dtype=torch.int64 if x.dtype == torch.bool else x.dtype)
            return reference(other, x) if first else reference(x, other)

        low, high = bounds_b if first else bounds_a
        compare(
            name,
            Call(
                of((3, 4), low=low, high=high),
                with_number,
                {"number": given, "first": first},
                types if isinstance(given, int) else floating,
                layouts=FLAT,
                **options,
            ),
        )


def quotients(name, reference, **options):
    """Whole numbers have no divisor 0: PyTorch refuses it, Sluice gives 0."""
    types = options.pop("types", values.NUMBERS)
    floating = tuple(dtype for dtype in types if dtype in values.FLOATING)
    binary(name, reference, -9.0, 9.0, 1.0, 3.0, types=types, specials=False, number=2, **options)
    compare(
        name,
        Call(
            pairs_of_specials, reference, types=floating, label="special values", layouts=FLAT, second=False, **options
        ),
    )
    compare(
        name,
        Call(
            lambda source: [source.values(4, 5, low=-9, high=9), -source.values(4, 5, low=1.0, high=3.0)],
            reference,
            types=("int8", "int32", "int64", *floating),
            label="negative divisors",
            **options,
        ),
    )


binary("add", torch.add)
binary("subtract", torch.sub)
binary("multiply", torch.mul)
binary("divide", torch.true_divide, 0.4, 3.0)
# A quotient near a whole number is rounded to either side of it.
# A zero has the sign of the divisor, as numpy.mod's; PyTorch's that of the dividend.
quotients("mod", torch.remainder, floor=9.0, zero_signs=False)
quotients("fmod", torch.fmod, floor=9.0)
quotients("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor"))
binary("power", torch.pow, 0.4, 2.5, number=2, types=values.FLOATING, ulps=8, gradient_ulps=64)
binary("power", torch.pow, 0, 5, specials=False, number=None, types=values.INTEGERS)
compare("power", Call(of((3, 4)), torch.square, {"number": 2}, label="square of numbers of both signs"))
# Whole numbers become float32, as everywhere; NumPy and PyTorch give float64.
binary(
    "float_power",
    torch.float_power,
    0.4,
    2.5,
    types=("uint8", "int64", "float32", "float64"),
    number=None,
    ulps=8,
    specials=False,
    dtypes_differ=True,
)
for operator, function in (
    ("maximum", torch.maximum),
    ("minimum", torch.minimum),
    ("fmax", torch.fmax),
    ("fmin", torch.fmin),
):
    binary(operator, function, zero_signs=False)
binary("hypot", torch.hypot, 0.4, 3.0, types=values.FLOATING, gradient_ulps=64)
binary("arctan2", torch.atan2, types=values.FLOATING)
binary("copysign", torch.copysign, types=values.FLOATING)
binary("ldexp", torch.ldexp, types=values.FLOATING, ulps=8, gradient_ulps=64, specials=False)
binary("logaddexp", torch.logaddexp, types=values.FLOATING, floor=1.0)
binary("logaddexp2", torch.logaddexp2, types=values.FLOATING, floor=1.0)
binary("heaviside", torch.heaviside, types=values.FLOATING, gradients=())
binary("xlogy", torch.xlogy, 0.4, 3.0, types=values.FLOATING, floor=1.0)
binary("xlog1py", torch.special.xlog1py, -0.6, 3.0, types=values.FLOATING, floor=1.0)
binary("gcd", torch.gcd, -99, 99, types=values.INTEGERS, specials=False)
binary("lcm", torch.lcm, -9, 9, types=values.INTEGERS, specials=False)
binary("prelu", lambda a, b: torch.where(a > 0, a, a * b), types=values.FLOATING, specials=False, number=None)
compare(
    "prelu",
    Call(
        of((2, 3, 4), (3, 1)),
        lambda x, a: torch.nn.functional.prelu(x, a.flatten()),
        label="a slope a channel",
        layouts=("contiguous", "transposed"),
    ),
)

for operator, function in (
    ("equal", torch.eq),
    ("not_equal", torch.ne),
    ("less", torch.less),
    ("less_equal", torch.less_equal),
    ("greater", torch.greater),
    ("greater_equal", torch.greater_equal),
    ("logical_and", torch.logical_and),
    ("logical_or", torch.logical_or),
    ("logical_xor", torch.logical_xor),
):
    binary(operator, function, types=values.ALL, gradients=())
for operator, function in (
    ("bitwise_and", torch.bitwise_and),
    ("bitwise_or", torch.bitwise_or),
    ("bitwise_xor", torch.bitwise_xor),
):
    binary(operator, function, -99, 99, types=("bool", *values.INTEGERS), gradients=(), number=None)
    compare(operator, Call(of((3, 4), low=-99, high=99), lambda x, f=function: f(x, 6), {"number": 6}, values.INTEGERS))
for operator, function in (("left_shift", torch.bitwise_left_shift), ("right_shift", torch.bitwise_right_shift)):
    binary(operator, function, -99, 99, 0, 7, types=values.INTEGERS, specials=False, gradients=(), number=3)
for told in ({}, {"rtol": 0.1, "atol": 0.5, "equal_nan": True}):
    compare(
        "isclose",
        Call(
            pairs_of_specials,
            lambda a, b, told=told: torch.isclose(a, b, **told),
            told,
            ("float32", "float64"),
            "special values",
            layouts=FLAT,
            gradients=(),
        ),
        Call(of((4, 5), (5,)), lambda a, b, told=told: torch.isclose(a, b, **told), told, values.PRECISE, gradients=()),
    )


def chosen(source, shapes):
    return [source.values(*shapes[0], dtype="bool"), *(source.values(*shape) for shape in shapes[1:])]


for shapes in (((3, 4), (3, 4), (3, 4)), ((4,), (3, 1), (1, 4)), ((2, 3, 4), (), (4,)), ((0, 3), (3,), (1, 3))):
    compare(
        "where",
        Call(
            lambda source, shapes=shapes: chosen(source, shapes),
            torch.where,
            types=values.ALL,
            label=str(shapes),
            gradients=(1, 2),
        ),
    )
for shapes in (((3, 4), (3, 4), (3, 4)), ((4,), (3, 1), (1, 4)), ((2, 0, 4), (4,), (1,))):
    for value in (1.0, -0.5):
        compare(
            "addcmul",
            Call(
                of(*shapes),
                lambda a, b, c, value=value: torch.addcmul(a, b, c, value=value),
                {"value": value},
                label=str(shapes),
                floor="largest",
            ),
        )
    compare("lerp", Call(of(*shapes), torch.lerp, label=str(shapes), floor="largest"))
compare("lerp", Call(of((3, 4), (3, 4)), lambda a, b: torch.lerp(a, b, 0.25), {"number": 0.25}, floor="largest"))


def mixed(kinds):
    """Arrays of two types: what comes out is of a third."""
    return lambda source: [source.values(3, 4, low=1, high=3, dtype=kind) for kind in kinds]


for kinds in itertools.product(values.ALL, values.ALL):
    compare(
        "add",
        Call(
            mixed(kinds),
            torch.add,
            types=("float32",),
            label=f"{kinds[0]} and {kinds[1]}",
            gradients=(),
            layouts=("contiguous",),
            ulps=4,
        ),
    )
    compare(
        "multiply",
        Call(
            mixed(kinds),
            torch.mul,
            types=("float32",),
            label=f"{kinds[0]} and {kinds[1]}",
            gradients=(),
            layouts=("contiguous",),
            ulps=4,
        ),
    )
binary(
    "nextafter",
    lambda a, b: torch.nextafter(a, b),
    types=values.PRECISE,
    gradients=(),
    number=None,
)
quotients(
    "divmod",
    lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.remainder(a, b)),
    floor=9.0,
    zero_signs=False,
)
