"""What is told by indices where to read and write."""

import math

import torch
import torch.nn.functional as F

import values
from client import DTYPES, Word
from table import Call, compare

INDEX_TYPES = ("int32", "int64")
RAISE, CLIP, WRAP = 0, 1, 2


def with_indices(shapes, axis=0, negative=False, mode=RAISE, low=None, high=None, dtype="int64"):
    """x, and whole numbers that name entries of its axis."""

    def make(source):
        x = source.values(*shapes[0])
        extent = shapes[0][axis]
        from_ = -extent if negative else 0
        span = (low, high) if low is not None else (from_, extent)
        return [x, source.whole(*shapes[1], low=span[0], high=span[1], dtype=dtype)]

    return make


def resolved(index, extent, mode):
    if mode == CLIP:
        return index.clamp(0, extent - 1)
    return index.remainder(extent)


for shapes, axis in (
    (((5, 3), (4,)), 0),
    (((5, 3), (2, 3)), 1),
    (((2, 5, 3), (6,)), 1),
    (((5, 3), (0,)), 0),
    (((5, 0), (4,)), 0),
    (((5,), ()), 0),
    (((2, 5, 3), (2, 2)), 2),
):
    for mode in (RAISE, CLIP, WRAP):

        def taken(x, index, axis=axis, mode=mode):
            index = resolved(index.long(), x.shape[axis], mode)
            shape = x.shape[:axis] + index.shape + x.shape[axis + 1 :]
            return torch.index_select(x, axis, index.flatten()).reshape(shape)

        maker = with_indices(shapes, axis, True) if mode == RAISE else with_indices(shapes, axis, low=-9, high=9)
        compare("take", Call(maker, taken, {"axis": axis, "mode": mode}, values.ALL, str(shapes), gradients=(0,)))
compare(
    "take",
    *(
        Call(
            with_indices(((5, 3), (4,)), dtype=kind),
            lambda x, i: torch.index_select(x, 0, i.long()),
            {"axis": 0, "mode": RAISE},
            ("float32",),
            kind,
            gradients=(0,),
        )
        for kind in values.INTEGERS
    )
)
for padding in (None, 2, -1):
    compare(
        "embedding",
        Call(
            lambda source: [source.whole(3, 4, low=0, high=5), source.values(5, 3)],
            lambda i, w, padding=padding: F.embedding(i, w, padding),
            {"padding": padding},
            gradients=(1,),
        ),
    )

ALONG = ((((5, 3), (2, 3)), 0), (((5, 3), (5, 4)), 1), (((2, 5, 3), (2, 7, 3)), 1), (((5, 3), (0, 3)), 0))
for shapes, axis in ALONG:
    told = {"axis": axis, "mode": RAISE}
    compare(
        "take_along_axis",
        Call(
            with_indices(shapes, axis, True),
            lambda x, i, axis=axis: torch.take_along_dim(x, i.remainder(x.shape[axis]), axis),
            told,
            values.ALL,
            str(shapes),
            gradients=(0,),
        ),
    )

    def adding(source, shapes=shapes, axis=axis):
        return [*with_indices(shapes, axis)(source), source.values(*shapes[1])]

    def putting(source, shapes=shapes, axis=axis):
        """No entry is named twice: which of two values stays there is not said."""
        extent, count = shapes[0][axis], min(shapes[1][axis], shapes[0][axis])
        shape = tuple(count if a == axis else n for a, n in enumerate(shapes[1]))
        order = torch.rand(
            tuple(extent if a == axis else n for a, n in enumerate(shape)), generator=source.generator
        ).argsort(axis)
        return [source.values(*shapes[0]), order.narrow(axis, 0, count).contiguous(), source.values(*shape)]

    compare(
        "add_along_axis",
        Call(
            adding,
            lambda x, i, v, axis=axis: torch.scatter_add(x, axis, i, v),
            told,
            values.ALL,
            str(shapes),
            gradients=(0, 2),
            floor=9.0,
            dtypes_differ=True,
        ),
    )
    compare(
        "put_along_axis",
        Call(
            putting,
            lambda x, i, v, axis=axis: torch.scatter(x, axis, i, v),
            told,
            values.ALL,
            str(shapes),
            gradients=(0, 2),
            layouts=values.LAYOUTS[:4],
        ),
    )


def rows_of(shape, count, axis, unique):
    def make(source):
        extent = shape[axis]
        index = source.permutation(extent)[:count] if unique else source.whole(count, low=0, high=extent)
        part = tuple(len(index) if a == axis else n for a, n in enumerate(shape))
        return [source.values(*shape), index, source.values(*part)]

    return make


for shape, axis in (((5, 3), 0), ((2, 6), 1), ((2, 4, 3), 1)):
    told = {"axis": axis, "mode": RAISE}
    compare(
        "index_add",
        Call(
            rows_of(shape, 7, axis, False),
            lambda x, i, v, axis=axis: torch.index_add(x, axis, i, v),
            told,
            values.ALL[1:],
            str(shape),
            gradients=(0, 2),
            floor=9.0,
        ),
    )
    compare(
        "index_update",
        Call(
            rows_of(shape, 3, axis, True),
            lambda x, i, v, axis=axis: torch.index_copy(x, axis, i, v),
            told,
            values.ALL,
            str(shape),
            gradients=(0, 2),
            layouts=values.LAYOUTS[:4],
        ),
    )


for shape in ((5, 3), (7,)):

    def flat(source, shape=shape):
        return [source.values(*shape), source.permutation(math.prod(shape))[:4], source.values(4)]

    compare(
        "put",
        Call(
            flat,
            lambda x, i, v: x.put(i, v),
            {"mode": RAISE},
            values.ALL,
            str(shape),
            gradients=(0, 2),
            layouts=values.LAYOUTS[:4],
        ),
    )
for over in ((3, 4), (3,), ()):

    def masked(source, over=over):
        return [source.values(3, 4), source.whole(*over, low=0, high=2).to(torch.bool)]

    def filled(x, mask, value):
        return x.masked_fill(mask.reshape(mask.shape + (1,) * (x.dim() - mask.dim())), value)

    told = {"value": 1}
    compare("masked_fill", Call(masked, lambda x, m: filled(x, m, 1), told, values.ALL, str(over), gradients=(0,)))
    compare(
        "masked_fill",
        Call(
            lambda source, masked=masked: [*masked(source), source.values()],
            filled,
            {},
            values.ALL,
            str(over),
            gradients=(0, 2),
        ),
    )


def coordinates(shape, count, unique):
    """x and the places of `count` rows of it, by two axes."""

    def make(source):
        flat = (
            source.permutation(shape[0] * shape[1])[:count]
            if unique
            else source.whole(count, low=0, high=shape[0] * shape[1])
        )
        return [
            source.values(*shape),
            torch.stack([flat // shape[1], flat % shape[1]]),
            source.values(count, *shape[2:]),
        ]

    return make


for shape in ((4, 3), (4, 3, 2), (2, 3, 0)):
    compare(
        "gather_nd",
        Call(
            lambda source, shape=shape: coordinates(shape, 5, False)(source)[:2],
            lambda x, i: x[i[0], i[1]],
            {"mode": RAISE},
            values.ALL,
            str(shape),
            gradients=(0,),
            layouts=values.LAYOUTS[:4],
        ),
    )
    compare(
        "scatter_nd",
        Call(
            lambda source, shape=shape: [coordinates(shape, 5, True)(source)[part] for part in (2, 1)],
            lambda v, i, shape=shape: torch.zeros(shape, dtype=v.dtype, device=v.device).index_put((i[0], i[1]), v),
            {"shape": shape},
            values.ALL,
            str(shape),
            gradients=(0,),
            layouts=values.LAYOUTS[:4],
        ),
    )
    compare(
        "index_update_nd",
        Call(
            coordinates(shape, 5, True),
            lambda x, i, v: x.index_put((i[0], i[1]), v),
            {"mode": RAISE},
            values.ALL,
            str(shape),
            gradients=(0, 2),
            layouts=values.LAYOUTS[:4],
        ),
    )
    compare(
        "index_add_nd",
        Call(
            coordinates(shape, 9, False),
            lambda x, i, v: x.index_put((i[0], i[1]), v, accumulate=True),
            {"mode": RAISE},
            values.ALL[1:],
            str(shape),
            gradients=(0, 2),
            floor=9.0,
            layouts=values.LAYOUTS[:4],
        ),
    )

compare(
    "slice_assign",
    Call(
        lambda source: [source.values(5, 4), source.values(2, 4)],
        lambda x, v: torch.slice_scatter(x, v, 0, 1, 4, 2),
        {"begin": (1, 0), "end": (4, 4), "step": (2, 1)},
        values.NUMBERS,
    ),
)


def replaced(x, v, i):
    y = x.clone()
    y[i[0], 1:3, i[1]] = v
    return y


def named_beside_ranges(source):
    """x, values of x[i, 1:3, j], and i and j, which name no entry twice."""
    rows, columns = torch.tensor([2, 0, -2]), torch.tensor([1, -1, 1])
    return [source.values(3, 4, 3), source.values(3, 2), torch.stack((rows, columns))]


compare(
    "index_assign",
    Call(
        named_beside_ranges,
        replaced,
        {
            "begin": (0, 1),
            "end": (3, 3),
            "step": (1, 1),
            "order": (0, 2, 1),
            "axis": 0,
        },
        values.ALL,
        gradients=(0, 1),
    ),
)
for shape, axis in (((4, 5), 1), ((4, 5), 0), ((2, 3, 4), 1)):

    def picked(x, i, axis=axis):
        return torch.gather(x, axis, i.remainder(x.shape[axis]).unsqueeze(axis)).squeeze(axis)

    rest = tuple(n for a, n in enumerate(shape) if a != axis)
    compare(
        "pick",
        Call(
            with_indices((shape, rest), axis, True),
            picked,
            {"axis": axis, "mode": RAISE},
            values.ALL,
            str(shape),
            gradients=(0,),
        ),
    )
for dtype in ("float32", "int64", "bool"):
    for shape in ((4,), (2, 3), (0,), ()):
        compare(
            "one_hot",
            Call(
                lambda source, shape=shape: [source.whole(*shape, low=0, high=6, dtype=source.dtype)],
                lambda i, dtype=dtype: F.one_hot(i.long(), 6).to(DTYPES[dtype]),
                {"depth": 6, "dtype": Word(dtype)},
                values.INTEGERS,
                str(shape),
                gradients=(),
            ),
        )
