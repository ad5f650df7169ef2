"""One node of an ONNX graph on its way to Sluice."""

import numpy
import onnx
import torch

from client import DTYPES, Word

OPERATORS = {}
ONNX_TYPES = {
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
}


class NoCounterpart(Exception):
    """Sluice has nothing that does this; the text says what it is that is missing."""


def onnx_operator(*names):
    """Registers a function of a NodeCall that gives the node's results, a list, for these operators of ONNX."""

    def register(function):
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def tensor_of(value):
    """A tensor of what a test case holds: arrays, protobuf tensors."""
    if isinstance(value, onnx.TensorProto):
        if value.data_type not in ONNX_TYPES:
            raise NoCounterpart(f"type {onnx.TensorProto.DataType.Name(value.data_type)}")
        value = onnx.numpy_helper.to_array(value)
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        raise NoCounterpart(f"values of {type(value).__name__}")
    value = numpy.array(value)  # NumPy's scalars too
    if str(value.dtype) == "bfloat16":
        return torch.from_numpy(value.view(numpy.int16).copy()).view(torch.bfloat16).reshape(value.shape)
    if str(value.dtype) not in DTYPES:
        raise NoCounterpart(f"type {value.dtype}")
    return torch.from_numpy(numpy.ascontiguousarray(value).reshape(value.shape))


class NodeCall:
    """A node with its inputs: arrays of Sluice, None for those that are left out."""

    def __init__(self, library, node, inputs, opset):
        self.library, self.node, self.inputs, self.opset = library, node, inputs, opset
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.unread = set(self.attributes)

    def attribute(self, name, default=None):
        self.unread.discard(name)
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def only(self, name, *allowed):
        """The attribute, which must be one of these or left out."""
        value = self.attribute(name, allowed[0])
        if value not in allowed:
            raise NoCounterpart(f"{name}={value}")
        return value

    def given(self, i):
        return i < len(self.inputs) and self.inputs[i] is not None

    def host(self, i, default=None):
        """The values of an input that Sluice takes as attributes: a number or a list."""
        return self.inputs[i].tensor().tolist() if self.given(i) else default

    def all_given(self):
        return [array for array in self.inputs if array is not None]

    def array(self, tensor):
        return self.library.array(tensor)

    def run(self, op, inputs, **attributes):
        return self.library.invoke(op, inputs, attributes)

    def finish(self, results):
        """Checks that every attribute has had its say, and that there are as many results as the node names."""
        if self.unread:
            raise NoCounterpart("attributes " + ", ".join(sorted(self.unread)))
        named = [name for name in self.node.output if name]
        if len(results) < len(self.node.output) and len(results) < len(named):
            raise NoCounterpart(f"result {len(results)}: {self.node.output[len(results)]}")
        return results


def axis_of(call, default, ndim, name="axis"):
    axis = call.attribute(name, default)
    return axis + ndim if axis < 0 else axis


def shaped(call, array, shape):
    """A view of the elements, which lie row by row or are copied so."""
    return call.run("reshape", call.run("copy", [array]), shape=tuple(shape))[0]


def cast(call, array, dtype):
    return array if array.dtype == dtype else call.run("astype", [array], dtype=Word(dtype))[0]
