"""Functions of elements."""

import math

from client import Word
from onnx_call import ONNX_TYPES, NoCounterpart, cast, onnx_operator

PLAIN = {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Add": "add",
    "And": "logical_and",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Equal": "equal",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "HardSwish": "hard_swish",
    "Identity": "copy",
    "IsNaN": "isnan",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Log": "log",
    "Mish": "mish",
    "Mul": "multiply",
    "Neg": "negative",
    "Not": "logical_not",
    "Or": "logical_or",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Sub": "subtract",
    "Tan": "tan",
    "Tanh": "tanh",
    "Where": "where",
    "Xor": "logical_xor",
    "PRelu": "prelu",
}


@onnx_operator(*PLAIN)
def plain(call):
    return call.run(PLAIN[call.node.op_type], call.all_given())


@onnx_operator("Div")
def divide(call):
    # Whole quotients are cut off in ONNX, and go down here: the same of numbers of one sign.
    whole = not call.inputs[0].dtype.startswith(("float", "bfloat"))
    signed = [array for array in call.inputs if array.dtype.startswith("int")]
    if whole and any(bool((array.tensor() < 0).any()) for array in signed):
        raise NoCounterpart("whole quotients cut off at 0")
    return call.run("floor_divide" if whole else "divide", call.inputs)


@onnx_operator("Pow")
def power(call):
    if call.inputs[0].dtype == call.inputs[1].dtype:
        return call.run("power", call.inputs)
    # The result is of the first type.
    return [cast(call, call.run("power", call.inputs)[0], call.inputs[0].dtype)]


@onnx_operator("Mod")
def modulo(call):
    return call.run("fmod" if call.attribute("fmod", 0) else "mod", call.inputs)


@onnx_operator("BitShift")
def shift(call):
    return call.run("left_shift" if call.attribute("direction") == "LEFT" else "right_shift", call.inputs)


@onnx_operator("Max", "Min", "Sum", "Mean")
def of_many(call):
    name = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}[call.node.op_type]
    result = call.inputs[0]
    for other in call.inputs[1:]:
        result = call.run(name, [result, other])[0]
    if call.node.op_type == "Mean":
        result = call.run("divide", [result], number=len(call.inputs))[0]
    return [result]


@onnx_operator("Clip")
def clip(call):
    result = call.inputs[0]
    low, high = call.attribute("min"), call.attribute("max")
    # Bounds that are arrays: NaN stays, and the upper one wins, as of minimum() behind maximum().
    if call.given(1):
        result = call.run("maximum", [result, call.inputs[1]])[0]
    if call.given(2):
        result = call.run("minimum", [result, call.inputs[2]])[0]
    if low is not None or high is not None:
        result = call.run(
            "clip", [result], low=-math.inf if low is None else low, high=math.inf if high is None else high
        )[0]
    return [result]


SLOPES = {
    "LeakyRelu": ("leaky_relu", {"slope": 0.01}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
}


@onnx_operator(*SLOPES)
def with_slopes(call):
    name, defaults = SLOPES[call.node.op_type]
    told = {
        ours: float(call.attribute("alpha" if ours == "slope" else ours, default)) for ours, default in defaults.items()
    }
    return call.run(name, call.inputs, **told)


@onnx_operator("Selu")
def selu(call):
    for name, value in (("alpha", 1.6732632423543772), ("gamma", 1.0507009873554805)):
        if abs(call.attribute(name, value) - value) > 1e-6:
            raise NoCounterpart(f"{name} of its own")
    return call.run("selu", call.inputs)


@onnx_operator("ThresholdedRelu")
def thresholded(call):
    return call.run("threshold", call.inputs, limit=float(call.attribute("alpha", 1.0)), value=0.0)


@onnx_operator("Shrink")
def shrink(call):
    lambd, bias = float(call.attribute("lambd", 0.5)), float(call.attribute("bias", 0.0))
    if bias not in (0.0, lambd):
        raise NoCounterpart("a bias other than 0 and lambd")
    return call.run("softshrink" if bias else "hard_shrink", call.inputs, lambd=lambd)


@onnx_operator("Gelu")
def gelu(call):
    return call.run("gelu_tanh" if call.only("approximate", "none", "tanh") == "tanh" else "gelu", call.inputs)


@onnx_operator("Swish")
def swish(call):
    if call.attribute("alpha", 1.0) != 1.0:
        raise NoCounterpart("alpha other than 1")
    return call.run("silu", call.inputs)


@onnx_operator("IsInf")
def is_infinite(call):
    negative, positive = call.attribute("detect_negative", 1), call.attribute("detect_positive", 1)
    name = {(1, 1): "isinf", (1, 0): "isneginf", (0, 1): "isposinf"}.get((negative, positive))
    if name is None:
        raise NoCounterpart("neither infinity")
    return call.run(name, call.inputs)


@onnx_operator("Cast", "CastLike")
def convert(call):
    call.attribute("saturate")
    if call.node.op_type == "CastLike":
        return [cast(call, call.inputs[0], call.inputs[1].dtype)]
    to = call.attribute("to")
    if to not in ONNX_TYPES:
        raise NoCounterpart("a type that there is not")
    return call.run("astype", call.inputs, dtype=Word(ONNX_TYPES[to]))
