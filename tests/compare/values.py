"""Numbers to compare with: types, random and special values, and the layouts in which an array may hold them."""

import math

import torch

from client import DTYPES

FLOATING = ("float16", "bfloat16", "float32", "float64")
PRECISE = ("float32", "float64")
SIGNED = ("int8", "int32", "int64")
INTEGERS = ("uint8",) + SIGNED
NUMBERS = INTEGERS + FLOATING
ALL = ("bool",) + NUMBERS
LAYOUTS = ("contiguous", "transposed", "stepped", "flipped", "stride-0")


def is_floating(tensor):
    return tensor.dtype.is_floating_point


def special_values(dtype):
    """What goes wrong first: not a number, infinities, zeros of both signs, the extremes, whole numbers and halves."""
    if dtype == "bool":
        return torch.tensor([False, True])
    if dtype in INTEGERS:
        info = torch.iinfo(DTYPES[dtype])
        values = {0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1}
        values |= {-1, -2, -7} if info.min < 0 else set()
        return torch.tensor(sorted(values), dtype=DTYPES[dtype])
    info = torch.finfo(DTYPES[dtype])
    values = [
        math.nan,
        math.inf,
        0.0,
        info.max,
        info.tiny,
        1.0,
        0.5,
        1.5,
        2.0,
        2.5,
        3.0,
        1e-3,
        7.25,
        20.0,
        89.0,
        1000.0,
    ]
    return torch.tensor(values + [-value for value in values[1:]], dtype=DTYPES[dtype])


class Source:
    """Random numbers for one call, of one type."""

    def __init__(self, seed, dtype):
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def values(self, *shape, low=-3.0, high=3.0, dtype=None):
        """Of the call's type within [low, high]; whole ones where it is one of integers."""
        dtype = dtype or self.dtype
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low
        if dtype == "bool":
            return drawn > (low + high) / 2
        if dtype in INTEGERS:
            drawn = drawn.round()
            return (drawn.abs() if dtype == "uint8" else drawn).to(DTYPES[dtype])
        return drawn.to(DTYPES[dtype])

    def whole(self, *shape, low=0, high=1, dtype="int64"):
        """Whole numbers within [low, high), as indices are."""
        return torch.randint(low, high, shape, generator=self.generator).to(DTYPES[dtype])

    def distinct(self, *shape):
        """No two are equal, in any type that holds as many numbers."""
        count = math.prod(shape)
        order = torch.randperm(count, generator=self.generator).to(torch.float64)
        if self.dtype == "bool":
            return (order % 2 == 0).reshape(shape)
        if self.dtype not in INTEGERS:
            order = (order - count // 2) / 4
        return order.reshape(shape).to(DTYPES[self.dtype])

    def permutation(self, count):
        return torch.randperm(count, generator=self.generator)

    def specials(self):
        return special_values(self.dtype)


def rubbish(dtype):
    """What lies between the elements of a view; no result may depend on it."""
    if dtype == torch.bool:
        return True
    return math.nan if dtype.is_floating_point else torch.iinfo(dtype).max


def transposed(library, tensor):
    axes = tuple(reversed(range(tensor.dim())))
    return library.invoke("transpose", [library.array(tensor.permute(axes))], {"shape": axes})[0]


def stepped(library, tensor):
    last = tensor.shape[-1]
    base = torch.full((*tensor.shape[:-1], 2 * last + 1), rubbish(tensor.dtype), dtype=tensor.dtype)
    base[..., 1::2] = tensor
    told = {"axis": tensor.dim() - 1, "begin": 1, "end": 2 * last + 1, "step": 2}
    return library.invoke("slice", [library.array(base)], told)[0]


def flipped(library, tensor):
    told = {"axis": 0, "begin": tensor.shape[0] - 1, "end": -tensor.shape[0] - 1, "step": -1}
    return library.invoke("slice", [library.array(tensor.flip(0))], told)[0]


def lay(library, tensor, layout):
    """(array, tensor): the elements in that layout where the shape allows it. Only stride-0 changes them: along the
    first axis of more than one element all are those of its beginning."""
    tensor = tensor.cpu()
    if layout == "contiguous" or tensor.dim() == 0 or tensor.numel() == 0:
        return library.array(tensor), tensor
    if layout == "stride-0":
        axis = next((axis for axis, extent in enumerate(tensor.shape) if extent > 1), None)
        if axis is None:
            return library.array(tensor), tensor
        one = tensor.narrow(axis, 0, 1)
        array = library.invoke("broadcast_to", [library.array(one)], {"shape": tuple(tensor.shape)})[0]
        return array, one.expand(tensor.shape).contiguous()
    return {"transposed": transposed, "stepped": stepped, "flipped": flipped}[layout](library, tensor), tensor
