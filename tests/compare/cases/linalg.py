"""Decompositions and what is solved with them."""

import itertools

import torch

import values
from table import Call, compare

LOOSE = {
    "types": values.PRECISE,
    "ulps": 512,
    "gradient_ulps": 8192,
    "floor": "largest",
    "zero_signs": False,
    "layouts": ("contiguous", "transposed", "stepped"),
}


def sound(*shape):
    """Square matrices far from singular ones."""
    return lambda source: [
        source.values(*shape, low=-1, high=1) + 3 * torch.eye(shape[-1], dtype=source.values(1).dtype)
    ]


def positive(*shape):
    def make(source):
        root = sound(*shape)(source)[0]
        return [root @ root.transpose(-1, -2) / 4]

    return make


def beside(maker, *shape):
    return lambda source: [*maker(source), source.values(*shape)]


def symmetric(function):
    """The gradient of a symmetric matrix is symmetric; PyTorch's is too, of what it is told is one."""
    return lambda x: function((x + x.transpose(-1, -2)) / 2)


for shape in ((3, 3), (2, 5, 5), (1, 1), (0, 0), (2, 0, 0), (12, 12)):
    compare("cholesky", Call(positive(*shape), symmetric(torch.linalg.cholesky), label=str(shape), **LOOSE))
    compare("inverse", Call(sound(*shape), torch.linalg.inv, label=str(shape), **LOOSE))
    compare("det", Call(sound(*shape), torch.linalg.det, label=str(shape), **LOOSE))
    compare("slogdet", Call(sound(*shape), lambda x: tuple(torch.linalg.slogdet(x)), label=str(shape), **LOOSE))
for shape, columns in (((3, 3), (3, 2)), ((2, 4, 4), (2, 4, 1)), ((4, 4), (2, 4, 3)), ((3, 3), (3, 0))):
    compare("solve", Call(beside(sound(*shape), *columns), torch.linalg.solve, label=f"{shape} {columns}", **LOOSE))
    for lower, transpose, unit in itertools.product((False, True), repeat=3):

        def solved(a, b, lower=lower, transpose=transpose, unit=unit):
            a = torch.tril(a) if lower else torch.triu(a)
            a = a.transpose(-1, -2) if transpose else a
            return torch.linalg.solve_triangular(a, b, upper=lower == transpose, unitriangular=unit)

        compare(
            "triangular_solve",
            Call(
                beside(sound(*shape), *columns),
                solved,
                {"lower": lower, "transpose": transpose, "unit_diagonal": unit},
                label=f"{shape} {columns}",
                **LOOSE,
            ),
        )


def rows(*shape):
    return lambda source: [source.values(*shape)]


for shape in ((4, 3), (3, 3), (2, 5, 2)):
    # Columns of Q and rows of R have any sign: PyTorch and Sluice both use Householder reflections, of LAPACK.
    compare("qr", Call(rows(*shape), lambda x: tuple(torch.linalg.qr(x)), label=str(shape), **LOOSE))
for shape in ((4, 3), (3, 3), (3, 4), (2, 5, 2)):
    # Singular vectors have any sign; what they multiply up to has none. Gradients are of the values alone.
    compare(
        "svd", Call(rows(*shape), lambda x: torch.linalg.svdvals(x), label=f"values {shape}", outputs=(1,), **LOOSE)
    )
for shape in ((3, 3), (2, 4, 4), (1, 1)):
    compare(
        "eigh", Call(positive(*shape), symmetric(torch.linalg.eigvalsh), label=f"values {shape}", outputs=(0,), **LOOSE)
    )
for shape in ((4, 3), (3, 4), (2, 5, 2), (3, 0)):
    compare("pinv", Call(rows(*shape), torch.linalg.pinv, label=str(shape), **LOOSE))
for shape, columns in (((5, 3), (5, 2)), ((2, 4, 3), (2, 4, 1))):
    compare(
        "lstsq",
        Call(
            lambda source, shape=shape, columns=columns: [source.values(*shape), source.values(*columns)],
            lambda a, b: torch.linalg.pinv(a) @ b,
            label=f"{shape} {columns}",
            **LOOSE,
        ),
    )
