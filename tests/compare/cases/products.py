"""Products of matrices and of any axes."""

import torch
import torch.nn.functional as F

import values
from table import Call, compare, of

SUMS = {"ulps": 32, "gradient_ulps": 256, "floor": "largest", "zero_signs": False}


def product(name, shapes, reference, told=None, types=values.NUMBERS, **options):
    compare(name, Call(of(*shapes), reference, told or {}, types, " ".join(map(str, shapes)), **{**SUMS, **options}))


def turned(x, turn):
    return x.transpose(-1, -2) if turn else x


for shapes in (
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((0, 4), (4, 3)),
    ((3, 0), (0, 2)),
    ((2, 0, 4), (2, 4, 3)),
    ((1, 64), (64, 1)),
    ((33, 40), (40, 17)),
):
    product("matmul", shapes, torch.matmul)
for first, second in ((True, False), (False, True), (True, True)):
    for batch in ((), (2,)):
        shapes = ((*batch, 4, 3) if first else (*batch, 3, 4), (*batch, 5, 4) if second else (*batch, 4, 5))
        for name, function in (("matmul", torch.matmul), ("batch_dot", torch.bmm)):
            if name == "matmul" or batch:
                product(
                    name,
                    shapes,
                    lambda a, b, f=function, first=first, second=second: f(turned(a, first), turned(b, second)),
                    {"transpose_a": first, "transpose_b": second},
                )
product("batch_dot", ((2, 3, 4), (2, 4, 5)), torch.bmm)
for shapes in (((3,), (3,)), ((2, 3), (3,)), ((), (2, 3)), ((2, 3), ())):
    product("matmul" if all(shapes) else "dot", shapes, torch.matmul if all(shapes) else torch.mul)
product("dot", ((2, 3), (4, 3, 5)), lambda a, b: torch.tensordot(a, b, ([1], [1])))
product("dot", ((3,), (3,)), lambda a, b: (a * b).sum(), dtypes_differ=True)
for shapes in (((3,), (3,)), ((2, 3), (4, 3)), ((2, 4, 3), (5, 3)), ((2, 0), (3, 0))):
    product("inner", shapes, torch.inner)
product("outer", ((3,), (4,)), torch.outer, types=values.ALL, dtypes_differ=True)
product("outer", ((0,), (4,)), torch.outer)
product("vdot", ((5,), (5,)), lambda a, b: (a * b).sum(), dtypes_differ=True)
for shapes in (((2, 3), (4, 2)), ((3,), (2,)), ((2, 3), (2,)), ((2, 0), (1, 3))):
    product("kron", shapes, torch.kron)
for shapes, axes_a, axes_b in (
    (((3, 4, 5), (4, 3, 2)), (0, 1), (1, 0)),
    (((2, 3), (3, 4)), (1,), (0,)),
    (((2, 3), (4,)), (), ()),
    (((2, 0), (0, 4)), (1,), (0,)),
):
    product(
        "tensordot",
        shapes,
        lambda a, b, x=axes_a, y=axes_b: torch.tensordot(a, b, (list(x), list(y))),
        {"axes_a": axes_a, "axes_b": axes_b},
    )
for equation, shapes in (
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
    ("ii", ((4, 4),)),
    ("ii->i", ((4, 4),)),
    ("ij->ji", ((3, 4),)),
    ("...ij->...ji", ((2, 3, 4),)),
    ("i,j", ((3,), (4,))),
    ("ij,ij->", ((3, 4), (3, 4))),
    ("bhld,bhmd->bhlm", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("...a,ab->...b", ((2, 3, 4), (4, 5))),
    ("ij,j->i", ((3, 0), (0,))),
    ("ijk->k", ((2, 3, 4),)),
    ("a,b,c->cab", ((2,), (3,), (4,))),
):
    product(
        "einsum",
        shapes,
        lambda *parts, equation=equation: torch.einsum(equation, *parts),
        {"equation": equation},
        dtypes_differ="->" not in equation or equation == "ijk->k",
    )
for shape, told in (
    ((3, 4), {}),
    ((3, 4), {"offset": 1}),
    ((2, 3, 4), {"offset": -1, "axis1": 1, "axis2": 2}),
    ((0, 3), {}),
):
    product(
        "trace",
        (shape,),
        lambda x, told=told: torch.diagonal(x, told.get("offset", 0), told.get("axis1", 0), told.get("axis2", 1)).sum(
            -1
        ),
        told,
        values.ALL,
    )
for shapes, flatten in (
    (((3, 4), (5, 4), (5,)), True),
    (((3, 4), (5, 4)), True),
    (((2, 3, 4), (5, 4), (5,)), False),
    (((2, 3, 2), (5, 6), (5,)), True),
    (((0, 4), (5, 4), (5,)), True),
):
    for relu in (False, True):

        def linear(x, w, b=None, flatten=flatten, relu=relu):
            y = F.linear(x.flatten(1) if flatten else x, w, b)
            return F.relu(y) if relu else y

        product("dense", shapes, linear, {"flatten": flatten, "relu": relu}, values.FLOATING)
for shapes, axis in ((((3, 5), (3, 5)), 1), (((2, 4, 3), (4, 1)), 1), (((6,), (6,)), 0), (((3, 40), (40,)), -1)):
    product(
        "cosine_similarity",
        shapes,
        lambda a, b, axis=axis: F.cosine_similarity(a, b, axis),
        {"axis": axis},
        ("float32", "float64"),
    )
