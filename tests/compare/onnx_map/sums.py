"""Reductions, scans, orders, products."""

from client import Word
from onnx_call import NoCounterpart, axis_of, cast, onnx_operator

REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1_norm",
    "ReduceL2": "l2_norm",
    "ReduceLogSumExp": "logsumexp",
    "ReduceSumSquare": "sum",
    "ReduceLogSum": "sum",
}


@onnx_operator(*REDUCTIONS)
def reduce(call):
    x = call.inputs[0]
    axes = call.attribute("axes") or call.host(1) or []
    keepdims = bool(call.attribute("keepdims", 1))
    if call.attribute("noop_with_empty_axes", 0) and not axes:
        if call.node.op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
            return call.run("copy", [x])
        raise NoCounterpart("no axes on purpose, of more than a sum")
    if call.node.op_type in ("ReduceMax", "ReduceMin") and 0 in x.shape:
        raise NoCounterpart("the largest of nothing, which is refused")
    if call.node.op_type == "ReduceSumSquare":
        x = call.run("square", [x])[0]
    result = call.run(REDUCTIONS[call.node.op_type], [x], axes=tuple(axes), keepdims=keepdims)[0]
    if call.node.op_type == "ReduceLogSum":
        result = call.run("log", [result])[0]
    return [cast(call, result, x.dtype)]  # sums of whole numbers are int64


@onnx_operator("ArgMax", "ArgMin")
def arg(call):
    axis = axis_of(call, 0, len(call.inputs[0].shape))
    if call.attribute("select_last_index", 0):
        raise NoCounterpart("the last of equals")
    name = call.node.op_type.lower()
    return call.run(name, call.inputs, axes=(axis,), keepdims=bool(call.attribute("keepdims", 1)))


@onnx_operator("CumSum", "CumProd")
def scan(call):
    if call.attribute("exclusive", 0):
        raise NoCounterpart("exclusive")
    axis = call.host(1)
    axis = axis[0] if isinstance(axis, list) else axis
    name = call.node.op_type.lower()
    result = call.run(name, call.inputs[:1], axis=axis, reverse=bool(call.attribute("reverse", 0)))[0]
    return [cast(call, result, call.inputs[0].dtype)]


@onnx_operator("TopK")
def topk(call):
    x = call.inputs[0]
    call.attribute("sorted")
    k = call.host(1)
    return call.run(
        "topk",
        [x],
        axis=axis_of(call, -1, len(x.shape)),
        k=k[0] if isinstance(k, list) else k,
        largest=bool(call.attribute("largest", 1)),
    )


@onnx_operator("MatMul")
def matmul(call):
    return call.run("matmul", call.inputs)


@onnx_operator("Gemm")
def gemm(call):
    turned = bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0))
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if alpha != 1 or (call.given(2) and beta != 1):
        raise NoCounterpart("alpha and beta")
    if not call.given(2):
        return call.run("matmul", call.inputs[:2], transpose_a=turned[0], transpose_b=turned[1])
    if turned == (False, True) and len(call.inputs[2].shape) == 1:
        return call.run("dense", call.inputs)
    raise NoCounterpart("a product and a sum in one call, but with a bias of units and transB")


@onnx_operator("Einsum")
def einsum(call):
    return call.run("einsum", call.inputs, equation=call.attribute("equation").replace(" ", ""))


@onnx_operator("Det")
def det(call):
    return call.run("det", call.inputs)


@onnx_operator("Range")
def range_of(call):
    start, limit, delta = (call.host(i) for i in range(3))
    return call.run(
        "arange", [], start=float(start), stop=float(limit), step=float(delta), dtype=Word(call.inputs[0].dtype)
    )
