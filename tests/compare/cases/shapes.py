"""Views, copies, and what moves elements along axes."""

import torch
import torch.nn.functional as F

import values
from client import DTYPES, Word
from table import Call, compare, of


def moves(name, reference, shape, told, **options):
    compare(name, Call(of(shape, low=-9, high=9), reference, told, values.ALL, str(shape), **options))


def padded(mode, axis, before, after, value=0):
    """F.pad of one axis, moved to the end; its modes other than "constant" want three axes, and no whole numbers."""

    def call(x):
        moved = x.movedim(axis, -1)
        flat = moved.reshape(1, moved[..., :1].numel() if moved.numel() else moved.shape[0], moved.shape[-1])
        if mode == "constant":
            padded_ = F.pad(flat, (before, after), value=value)
        else:
            padded_ = F.pad(flat if flat.is_floating_point() else flat.to(torch.float64), (before, after), mode)
        return padded_.to(x.dtype).reshape(*moved.shape[:-1], -1).movedim(-1, axis)

    return call


for shape, new in (
    ((3, 4), (2, 6)),
    ((3, 4), (12,)),
    ((2, 3, 4), (4, 3, 2)),
    ((0, 3), (3, 0)),
    ((1,), ()),
    ((3, 4), (3, 2, 2)),
):
    # By its name it is a view, where there is one of such strides; the function of arrays copies.
    moves("reshape", lambda x, new=new: x.reshape(new), shape, {"shape": new}, layouts=("contiguous",))
moves("reshape", lambda x: x.reshape(2, -1), (3, 4), {"shape": (2, -1)}, layouts=("contiguous",))
for shape, axis in (((3, 4), 0), ((3, 4), 2), ((3, 4), -1), ((), 0), ((0, 2), 1)):
    moves("expand_dims", lambda x, axis=axis: x.unsqueeze(axis), shape, {"axis": axis})
for shape, axis in (((1, 4), 0), ((3, 1), 1), ((3, 1, 2), -2)):
    moves("squeeze", lambda x, axis=axis: x.squeeze(axis), shape, {"axis": axis})
for shape, axes in (((3, 4), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 0, 4), (0, 2, 1)), ((2, 3, 4), (0, 1, 2))):
    moves("transpose", lambda x, axes=axes: x.permute(axes), shape, {"shape": axes})
for shape, new in (((3, 1), (3, 4)), ((4,), (2, 3, 4)), ((), (2, 2)), ((1, 3), (0, 3))):
    moves("broadcast_to", lambda x, new=new: torch.broadcast_to(x, new), shape, {"shape": new})
compare("broadcast_like", Call(of((3, 1), (2, 3, 4)), lambda x, like: x.expand_as(like), gradients=(0,)))
for shape, axis, begin, end in (((5, 4), 0, 1, 4), ((5, 4), 1, 0, 4), ((5, 4), 1, 2, 2), ((2, 6, 3), 1, 1, 6)):
    moves(
        "slice",
        lambda x, axis=axis, begin=begin, end=end: x.narrow(axis, begin, end - begin),
        shape,
        {"axis": axis, "begin": begin, "end": end, "step": 1},
    )
moves("slice", lambda x: x[:, 1::3], (3, 8), {"axis": 1, "begin": 1, "end": 8, "step": 3})
moves("slice", lambda x: x.flip(1)[:, ::2], (3, 8), {"axis": 1, "begin": 7, "end": -9, "step": -2})
moves("slice_axes", lambda x: x[1:4:2, 0:3], (5, 4), {"begin": (1, 0), "end": (4, 3), "step": (2, 1)})
moves("diagonal", lambda x: torch.diagonal(x, 1, 0, 2), (3, 2, 4), {"offset": 1, "axis1": 0, "axis2": 2})
moves("diagonal", lambda x: torch.diagonal(x, -1, 0, 1), (3, 4), {"offset": -1, "axis1": 0, "axis2": 1})
for k in (-2, 0, 1, 9):
    for shape in ((3, 4), (2, 5, 3), (0, 3), (2, 3, 0), (2, 33, 64)):
        moves("tril", lambda x, k=k: torch.tril(x, k), shape, {"k": k})
        moves("triu", lambda x, k=k: torch.triu(x, k), shape, {"k": k})
    for shape in ((3,), (3, 4), (0,)):
        if k < 9:
            moves("diag", lambda x, k=k: torch.diag(x, k), shape, {"k": k})
for source, destination in (((0,), (-1,)), ((0, 1), (2, 0)), ((2,), (0,)), ((), ())):
    moves(
        "moveaxis",
        lambda x, s=source, d=destination: torch.movedim(x, s, d),
        (2, 3, 4),
        {"source": source, "destination": destination},
    )
for k, axes in ((1, (0, 1)), (2, (0, 1)), (3, (1, 2)), (-3, (2, 0)), (4, (0, 1))):
    moves("rot90", lambda x, k=k, axes=axes: torch.rot90(x, k, axes), (2, 3, 4), {"k": k, "axes": axes})
for xy in (False, True):
    compare(
        "meshgrid",
        Call(
            of((3,), (4,)),
            lambda *parts, xy=xy: tuple(torch.meshgrid(*parts, indexing="xy" if xy else "ij")),
            {"xy": xy},
            values.ALL,
        ),
    )
moves("detach", lambda x: x.detach(), (3, 4), {}, gradients=())
for axis in (0, 1, -1):
    compare(
        "concat",
        Call(
            lambda source, axis=axis: [
                source.values(*(n if a == axis % 2 else 3 for a in range(2))) for n in (2, 1, 0, 4)
            ],
            lambda *parts, axis=axis: torch.concat(parts, axis),
            {"axis": axis},
            values.ALL,
        ),
    )
for axis in (0, 2, -1):
    compare(
        "stack",
        Call(of((2, 3), (2, 3)), lambda a, b, axis=axis: torch.stack((a, b), axis), {"axis": axis}, values.ALL),
    )
moves("split_heads", lambda x: x.reshape(2, 3, 4, 2).transpose(1, 2), (2, 3, 8), {"heads": 4})
moves("join_heads", lambda x: x.transpose(1, 2).reshape(2, 3, 8), (2, 4, 3, 2), {})
for told in ({"parts": 3}, {"indices": (1, 4)}):
    compare(
        "split",
        Call(
            of((2, 6)),
            lambda x, told=told: torch.tensor_split(x, 3 if "parts" in told else (1, 4), 1),
            {"axis": 1, **told},
            values.ALL,
        ),
    )
compare(
    "concat",
    Call(
        of((2, 3), (1, 3)),
        lambda a, b: torch.concat((a, b)).float(),
        {"axis": 0, "dtype": "float32"},
        values.ALL,
        "to float32",
        gradients=(),
    ),
)
compare(
    "concat",
    Call(
        lambda source: [source.values(2, 3), source.values(1, 3, dtype="float32")],
        lambda a, b: torch.concat((a, b)),
        {"axis": 0},
        values.ALL,
        "beside float32",
        gradients=(),
    ),
)
for shape, axis, count in (((3, 4), 0, 2), ((3, 4), 1, 3), ((3, 4), 1, 0), ((2, 0, 3), 2, 2)):
    moves(
        "tile",
        lambda x, axis=axis, count=count: x.tile([count if a == axis else 1 for a in range(x.dim())]),
        shape,
        {"axis": axis, "repeats": count},
    )
    moves(
        "repeat",
        lambda x, axis=axis, count=count: torch.repeat_interleave(x, count, axis),
        shape,
        {"axis": axis, "repeats": count},
    )
for shape, axis in (((3, 4), 0), ((3, 4), 1), ((2, 5, 3), 1)):
    for before, after in ((0, 0), (2, 1), (0, 3)):
        told = {"axis": axis, "before": before, "after": after}
        moves("pad", padded("constant", axis, before, after, 1), shape, {**told, "value": 1})
        moves("pad_edge", padded("replicate", axis, before, after), shape, told)
        if max(before, after) < shape[axis]:
            moves("pad_reflect", padded("reflect", axis, before, after), shape, told)
moves("pad", padded("constant", 1, 2, 1), (3, 0), {"axis": 1, "before": 2, "after": 1, "value": 0})
for shape, axis in (((3, 4), 0), ((3, 4), 1), ((2, 0, 3), 1)):
    moves("flip", lambda x, axis=axis: x.flip(axis), shape, {"axis": axis})
    for shift in (0, 1, -3, 11):
        moves(
            "roll", lambda x, axis=axis, shift=shift: torch.roll(x, shift, axis), shape, {"axis": axis, "shift": shift}
        )
for shape in ((3, 4), (2, 0, 3), ()):
    moves("flip", lambda x: x.flip(tuple(range(x.dim()))), shape, {})
    moves("roll", lambda x: torch.roll(x, 5), shape, {"shift": 5})
    moves("repeat", lambda x: torch.repeat_interleave(x, 2), shape, {"repeats": 2})
for dtype in values.ALL:
    compare(
        "astype",
        Call(
            of((3, 5), low=0, high=100),
            lambda x, dtype=dtype: x.to(DTYPES[dtype]),
            {"dtype": Word(dtype)},
            values.ALL,
            gradients=None if dtype in values.FLOATING else (),
        ),
    )
for dtype in values.FLOATING:
    compare(
        "astype",
        Call(
            lambda source: [source.specials()],
            lambda x, dtype=dtype: x.to(DTYPES[dtype]),
            {"dtype": Word(dtype)},
            values.ALL,
            "special values",
        ),
    )
moves("copy", lambda x: x.clone(), (3, 5), {})
compare("fill", Call(of((3, 4)), lambda x: torch.full_like(x, 2), {"value": 2}, values.NUMBERS, gradients=()))


def made(source):
    return []


for dtype in values.ALL:
    kind = DTYPES[dtype]
    # What is made of no array is made in the process' memory; the first input of the others says where.
    compare(
        "full",
        Call(
            made,
            lambda kind=kind: torch.full((2, 3), 1, dtype=kind),
            {"shape": (2, 3), "dtype": Word(dtype), "value": 1},
            ("float32",),
            layouts=("contiguous",),
        ),
    )
for start, stop, step in ((0.0, 7.0, 2.0), (5.0, 0.0, -1.5), (1.0, 1.0, 1.0), (-2.0, 3.0, 0.25)):
    for dtype in ("int64", "float32", "float64"):
        if dtype == "int64" and (step % 1 or start % 1):
            continue
        compare(
            "arange",
            Call(
                made,
                lambda start=start, stop=stop, step=step, dtype=dtype: torch.arange(
                    start, stop, step, dtype=DTYPES[dtype]
                ),
                {"start": start, "stop": stop, "step": step, "dtype": Word(dtype)},
                ("float32",),
                layouts=("contiguous",),
            ),
        )
for start, stop, count in ((0.0, 1.0, 5), (3.0, -3.0, 7), (2.0, 9.0, 1), (0.1, 0.8, 10), (1.0, 2.0, 0)):
    for dtype in values.PRECISE:
        compare(
            "linspace",
            Call(
                made,
                lambda start=start, stop=stop, count=count, dtype=dtype: torch.linspace(
                    start, stop, count, dtype=DTYPES[dtype]
                ),
                {"start": start, "stop": stop, "count": count, "dtype": Word(dtype)},
                ("float32",),
                layouts=("contiguous",),
                floor=1.0,
            ),
        )
for rows, columns in ((3, 3), (2, 5), (4, 0)):
    for dtype in values.ALL:
        compare(
            "eye",
            Call(
                made,
                lambda rows=rows, columns=columns, dtype=dtype: torch.eye(rows, columns, dtype=DTYPES[dtype]),
                {"rows": rows, "columns": columns, "dtype": Word(dtype)},
                ("float32",),
                layouts=("contiguous",),
            ),
        )


def squares(function, block):
    """MXNet's order of channels by PyTorch's: the place in the square first, then the channel."""

    def to_depth(x):
        y = F.pixel_unshuffle(x, block)
        n, channels, height, width = y.shape
        return y.reshape(n, channels // block**2, block**2, height, width).transpose(1, 2).reshape(y.shape)

    def to_space(x):
        n, channels, height, width = x.shape
        turned = x.reshape(n, block**2, channels // block**2, height, width).transpose(1, 2)
        return F.pixel_shuffle(turned.reshape(x.shape), block)

    return to_depth if function == "to_depth" else to_space


for block in (1, 2, 3):
    told = {"block_size": block}
    image, deep = (2, 3, 2 * block, block), (2, 2 * block**2, 2, 3)
    moves("pixel_unshuffle", lambda x, block=block: F.pixel_unshuffle(x, block), image, told)
    moves("pixel_shuffle", lambda x, block=block: F.pixel_shuffle(x, block), deep, told)
    moves("space_to_depth", squares("to_depth", block), image, told)
    moves("depth_to_space", squares("to_space", block), deep, told)
