"""Views, copies and indices."""

import torch

from client import Word
from onnx_call import ONNX_TYPES, NoCounterpart, axis_of, onnx_operator, shaped, tensor_of


@onnx_operator("Reshape")
def reshape(call):
    x, shape = call.inputs[0], list(call.host(1))
    if not call.attribute("allowzero", 0):
        shape = [x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)]
    return [shaped(call, x, shape)]


@onnx_operator("Flatten")
def flatten(call):
    x = call.inputs[0]
    axis = axis_of(call, 1, len(x.shape))
    rows = 1
    for extent in x.shape[:axis]:
        rows *= extent
    columns = 1
    for extent in x.shape[axis:]:
        columns *= extent
    return [shaped(call, x, (rows, columns))]


@onnx_operator("Squeeze", "Unsqueeze")
def squeeze(call):
    x = call.inputs[0]
    axes = call.attribute("axes") or call.host(1)
    if call.node.op_type == "Squeeze":
        axes = [axis for axis, extent in enumerate(x.shape) if extent == 1] if axes is None else axes
        for axis in sorted((axis % len(x.shape) for axis in axes), reverse=True):
            x = call.run("squeeze", [x], axis=axis)[0]
        return [x]
    ndim = len(x.shape) + len(axes)
    for axis in sorted(axis % ndim for axis in axes):
        x = call.run("expand_dims", [x], axis=axis)[0]
    return [x]


@onnx_operator("Transpose")
def transpose(call):
    x = call.inputs[0]
    return call.run("transpose", [x], shape=tuple(call.attribute("perm") or reversed(range(len(x.shape)))))


@onnx_operator("SpaceToDepth", "DepthToSpace")
def squares(call):
    if call.node.op_type == "SpaceToDepth":
        name = "space_to_depth"
    else:
        name = "pixel_shuffle" if call.attribute("mode") == "CRD" else "depth_to_space"
    return call.run(name, call.inputs, block_size=call.attribute("blocksize"))


@onnx_operator("Expand")
def expand(call):
    x = call.inputs[0]
    shape = torch.broadcast_shapes(x.shape, tuple(call.host(1)))
    return call.run("broadcast_to", [x], shape=tuple(shape))


@onnx_operator("Concat")
def concat(call):
    return call.run("concat", call.inputs, axis=axis_of(call, 0, len(call.inputs[0].shape)))


@onnx_operator("Split")
def split(call):
    x = call.inputs[0]
    axis = axis_of(call, 0, len(x.shape))
    count = call.attribute("num_outputs") or len(call.node.output)
    sizes = call.attribute("split") or call.host(1)
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    results, begin = [], 0
    for size in sizes:
        results += call.run("slice", [x], axis=axis, begin=begin, end=begin + size)
        begin += size
    return results


@onnx_operator("Slice")
def slice_of(call):
    x = call.inputs[0]
    begins, ends = call.host(1), call.host(2)
    axes = call.host(3) or list(range(len(begins)))
    steps = call.host(4) or [1] * len(begins)
    for axis, begin, end, step in zip(axes, begins, ends, steps):
        axis %= len(x.shape)
        x = call.run("slice", [x], axis=axis, begin=begin, end=end, step=step)[0]
    return [x]


@onnx_operator("Tile")
def tile(call):
    x = call.inputs[0]
    for axis, count in enumerate(call.host(1)):
        x = call.run("tile", [x], axis=axis, repeats=count)[0]
    return [x]


@onnx_operator("Pad")
def pad(call):
    x = call.inputs[0]
    mode = call.attribute("mode", "constant")
    name = {"constant": "pad", "edge": "pad_edge", "reflect": "pad_reflect"}.get(mode)
    if name is None:
        raise NoCounterpart(f"mode={mode}")
    pads = call.attribute("pads") or call.host(1)
    axes = call.host(3) or list(range(len(x.shape)))
    value = call.host(2) if call.given(2) else call.attribute("value", 0)
    value = value[0] if isinstance(value, list) else value
    for i, axis in enumerate(axes):
        before, after = pads[i], pads[i + len(axes)]
        if before < 0 or after < 0:
            raise NoCounterpart("negative widths")
        told = {"axis": axis % len(x.shape), "before": before, "after": after}
        x = call.run(name, [x], **({**told, "value": value} if name == "pad" else told))[0]
    return [x]


@onnx_operator("Gather")
def gather(call):
    return call.run("take", call.inputs, axis=axis_of(call, 0, len(call.inputs[0].shape)))


@onnx_operator("GatherElements")
def gather_elements(call):
    return call.run("take_along_axis", call.inputs, axis=axis_of(call, 0, len(call.inputs[0].shape)))


def turned(call, indices):
    """Coordinates stand along the last axis in ONNX, along the first one here."""
    ndim = len(indices.shape)
    return call.run("transpose", [indices], shape=(ndim - 1, *range(ndim - 1)))[0]


@onnx_operator("GatherND")
def gather_nd(call):
    if call.attribute("batch_dims", 0):
        raise NoCounterpart("batch_dims")
    return call.run("gather_nd", [call.inputs[0], turned(call, call.inputs[1])])


@onnx_operator("ScatterND")
def scatter_nd(call):
    reduction = call.only("reduction", "none", "add")
    return call.run(
        "index_add_nd" if reduction == "add" else "index_update_nd",
        [call.inputs[0], turned(call, call.inputs[1]), call.inputs[2]],
    )


@onnx_operator("ScatterElements", "Scatter")
def scatter_elements(call):
    reduction = call.only("reduction", "none", "add")
    return call.run(
        "add_along_axis" if reduction == "add" else "put_along_axis",
        call.inputs,
        axis=axis_of(call, 0, len(call.inputs[0].shape)),
    )


@onnx_operator("OneHot")
def one_hot(call):
    indices, values = call.inputs[0], call.host(2)
    depth = call.host(1)
    depth = int(depth[0] if isinstance(depth, list) else depth)
    if not indices.dtype.startswith("int") or bool((indices.tensor() < 0).any()):
        raise NoCounterpart("indices that are no whole numbers from 0")
    ndim = len(indices.shape) + 1
    if axis_of(call, -1, ndim) != ndim - 1 or values != [0, 1]:
        raise NoCounterpart("another axis than the last, or other values than 0 and 1")
    return call.run("one_hot", [indices], depth=depth, dtype=Word(call.inputs[2].dtype))


@onnx_operator("ReverseSequence")
def reverse(call):
    time, batch = call.attribute("time_axis", 0), call.attribute("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise NoCounterpart("other axes than the first two")
    return call.run("sequence_reverse", call.inputs, axis=time)


@onnx_operator("Shape", "Size")
def shape_of(call):
    shape = call.inputs[0].shape
    if call.node.op_type == "Size":
        count = 1
        for extent in shape:
            count *= extent
        return [call.array(torch.tensor(count))]
    end = call.attribute("end")
    return [call.array(torch.tensor(shape[call.attribute("start", 0) : end], dtype=torch.int64))]


@onnx_operator("Constant")
def constant(call):
    name = next(iter(call.attributes))
    value = call.attribute(name)
    if name == "value":
        return [call.array(tensor_of(value))]
    dtype = {
        "value_int": torch.int64,
        "value_ints": torch.int64,
        "value_float": torch.float32,
        "value_floats": torch.float32,
    }.get(name)
    if dtype is None:
        raise NoCounterpart(name)
    return [call.array(torch.tensor(value, dtype=dtype))]


@onnx_operator("ConstantOfShape")
def constant_of_shape(call):
    value = call.attribute("value")
    dtype = "float32" if value is None else ONNX_TYPES.get(value.data_type)
    if dtype is None:
        raise NoCounterpart("a type that there is not")
    number = 0 if value is None else tensor_of(value).item()
    return call.run("full", [], shape=tuple(call.host(0)), dtype=Word(dtype), value=number)


@onnx_operator("Trilu")
def triangle(call):
    k = call.host(1, 0)
    k = k[0] if isinstance(k, list) else k
    return call.run("triu" if call.attribute("upper", 1) else "tril", call.inputs[:1], k=k)


@onnx_operator("EyeLike")
def eye(call):
    rows, columns = call.inputs[0].shape
    to = call.attribute("dtype")
    if to is not None and to not in ONNX_TYPES:
        raise NoCounterpart("a type that there is not")
    dtype = call.inputs[0].dtype if to is None else ONNX_TYPES[to]
    return call.run("eye", [], rows=rows, columns=columns, k=call.attribute("k", 0), dtype=Word(dtype))
