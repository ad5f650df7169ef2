"""Layers of networks."""

from onnx_call import NoCounterpart, axis_of, onnx_operator, shaped


def same_pads(call, x, kernel, strides, dilations):
    """Widths on both sides for auto_pad, as ONNX counts them: all the first, then all the last."""
    mode = call.attribute("auto_pad", "NOTSET")
    pads = call.attribute("pads")
    if mode in ("NOTSET", "VALID"):
        return list(pads or [0] * (2 * len(kernel)))
    first, last = [], []
    for extent, size, stride, dilation in zip(x.shape[2:], kernel, strides, dilations):
        outputs = -(-extent // stride)
        total = max(0, (outputs - 1) * stride + dilation * (size - 1) + 1 - extent)
        less = total // 2
        first.append(less if mode == "SAME_UPPER" else total - less)
        last.append(total - less if mode == "SAME_UPPER" else less)
    return first + last


def window(call, x, kernel):
    n = len(kernel)
    if n not in (1, 2, 3):
        raise NoCounterpart(f"{n} spatial axes")
    strides = list(call.attribute("strides") or [1] * n)
    dilations = list(call.attribute("dilations") or [1] * n)
    return strides, dilations, same_pads(call, x, kernel, strides, dilations)


def told(n, strides, pads, dilations=None):
    """Attributes as operators of one or of two axes name them."""
    result = {"stride": strides[0] if n == 1 else tuple(strides), "pad": tuple(pads)}
    if dilations is not None:
        result["dilation"] = dilations[0] if n == 1 else tuple(dilations)
    return result


@onnx_operator("Conv")
def convolution(call):
    x, w = call.inputs[0], call.inputs[1]
    kernel = list(call.attribute("kernel_shape") or w.shape[2:])
    strides, dilations, pads = window(call, x, kernel)
    how = {**told(len(kernel), strides, pads, dilations), "groups": call.attribute("group", 1)}
    if len(kernel) == 1:
        return call.run("convolution1d", call.all_given(), **how)
    if len(kernel) == 3:
        return call.run("convolution3d", call.all_given(), **how)
    return call.run("convolution", call.all_given(), **how, bias=call.given(2))


@onnx_operator("ConvTranspose")
def deconvolution(call):
    kernel = list(call.attribute("kernel_shape") or call.inputs[1].shape[2:])
    n = len(kernel)
    if n not in (1, 2, 3):
        raise NoCounterpart(f"{n} spatial axes")
    if call.attribute("output_shape") is not None or call.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NoCounterpart("padding that follows from the result's shape")
    strides = list(call.attribute("strides") or [1] * n)
    dilations = list(call.attribute("dilations") or [1] * n)
    adj = list(call.attribute("output_padding") or [0] * n)
    how = {**told(n, strides, call.attribute("pads") or [0] * (2 * n), dilations), "groups": call.attribute("group", 1)}
    name = {1: "deconvolution1d", 2: "deconvolution", 3: "deconvolution3d"}[n]
    return call.run(name, call.all_given(), **how, adj=adj[0] if n == 1 else tuple(adj))


@onnx_operator("MaxPool", "AveragePool", "LpPool")
def pool(call):
    x = call.inputs[0]
    if "float" not in x.dtype:
        raise NoCounterpart(f"pools of {x.dtype}")
    kernel = list(call.attribute("kernel_shape"))
    strides, dilations, pads = window(call, x, kernel)
    if any(dilation != 1 for dilation in dilations):
        raise NoCounterpart("dilations")
    if call.attribute("storage_order", 0) or len([name for name in call.node.output if name]) > 1:
        raise NoCounterpart("places of the largest")
    n = len(kernel)
    name = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[call.node.op_type] + f"_pool{n}d"
    how = {
        "kernel": kernel[0] if n == 1 else tuple(kernel),
        **told(n, strides, pads),
        "ceil_mode": bool(call.attribute("ceil_mode", 0)),
    }
    if name.startswith("avg"):
        how["count_include_pad"] = bool(call.attribute("count_include_pad", 0))
    if name.startswith("lp"):
        how["p"] = float(call.attribute("p", 2))
    return call.run(name, [x], **how)


@onnx_operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call):
    n = len(call.inputs[0].shape) - 2
    if n not in (1, 2, 3):
        raise NoCounterpart(f"{n} spatial axes")
    how = {"global": True}
    if call.node.op_type == "GlobalLpPool":
        how["p"] = float(call.attribute("p", 2))
    name = {"GlobalAveragePool": "avg", "GlobalMaxPool": "max", "GlobalLpPool": "lp"}[call.node.op_type]
    return call.run(f"{name}_pool{n}d", call.inputs, **how)


@onnx_operator("LpNormalization")
def lp_normalization(call):
    x, axis = call.inputs[0], axis_of(call, -1, len(call.inputs[0].shape))
    size = call.run("norm", [x], order=float(call.attribute("p", 2)), axes=(axis,), keepdims=True)[0]
    # What is 0 stays so.
    is_zero = call.run("equal", [size], number=0)[0]
    return call.run("divide", [x, call.run("add", [size, is_zero])[0]])


@onnx_operator("Softmax", "LogSoftmax")
def softmax(call):
    x = call.inputs[0]
    axis = axis_of(call, -1, len(x.shape))
    return call.run("softmax" if call.node.op_type == "Softmax" else "log_softmax", [x], axis=axis)


@onnx_operator("LayerNormalization", "RMSNormalization")
def layer_norm(call):
    call.only("stash_type", 1)
    x, axis = call.inputs[0], axis_of(call, -1, len(call.inputs[0].shape))
    if len([name for name in call.node.output if name]) > 1 and axis != len(x.shape) - 1:
        raise NoCounterpart("statistics of several axes")
    if call.given(1) and call.inputs[1].shape != x.shape[axis:]:
        raise NoCounterpart("a scale that is broadcast")
    # Several axes are one of as many elements.
    rows = shaped(call, x, (*x.shape[:axis], -1))
    parameters = [shaped(call, array, (-1,)) for array in call.inputs[1:] if array is not None]
    eps = call.attribute("epsilon", 1e-5)
    if call.node.op_type == "LayerNormalization":
        if len(parameters) == 1:
            parameters += call.run("multiply", parameters, number=0)
        results = call.run("layer_norm", [rows, *parameters], axis=axis, eps=eps)
    else:
        results = call.run("rms_norm", [rows, *parameters], axis=axis, eps=eps)
    result = shaped(call, results[0], x.shape)
    if len([name for name in call.node.output if name]) == 1:
        return [result]
    return [result] + [shaped(call, statistic, (*x.shape[:axis], 1)) for statistic in results[1:3]]


@onnx_operator("GroupNormalization", "InstanceNormalization")
def group_norm(call):
    call.only("stash_type", 1)
    eps = call.attribute("epsilon", 1e-5)
    if call.node.op_type == "InstanceNormalization":
        return call.run("instance_norm", call.inputs, eps=eps)[:1]
    groups = call.attribute("num_groups")
    if call.inputs[1].shape != (call.inputs[0].shape[1],):
        raise NoCounterpart("a scale a group")
    return call.run("group_norm", call.inputs, num_groups=groups, eps=eps)[:1]


@onnx_operator("BatchNormalization")
def batch_norm(call):
    training = bool(call.attribute("training_mode", 0))
    how = {"eps": call.attribute("epsilon", 1e-5), "momentum": call.attribute("momentum", 0.9), "batch_stats": training}
    moving = [call.run("copy", [array])[0] for array in call.inputs[3:5]]
    name = "batch_norm" if training else "batch_norm_predict"
    return [call.run(name, [*call.inputs[:3], *moving], **how)[0], *moving]


@onnx_operator("LRN")
def local_response_norm(call):
    size = call.attribute("size")
    return call.run(
        "local_response_norm",
        call.inputs,
        nsize=size,
        alpha=call.attribute("alpha", 1e-4),
        beta=call.attribute("beta", 0.75),
        knorm=call.attribute("bias", 1.0),
    )


@onnx_operator("Dropout")
def dropout(call):
    call.attribute("seed")
    ratio = call.attribute("ratio", 0.5)
    if call.given(2) and call.host(2) and (call.host(1, ratio) != 0):
        raise NoCounterpart("another generator's random numbers")
    if len([name for name in call.node.output if name]) > 1:
        raise NoCounterpart("the mask")
    return call.run("copy", call.inputs[:1])


@onnx_operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(call):
    (
        call.only("reduction", "none")
        if call.attributes.get("reduction", b"mean") == b"none"
        else lacks("a loss that is added up")
    )
    x, labels = call.inputs[:2]
    told = {"axis": 1}
    if call.attribute("ignore_index") is not None:
        told["ignored"] = call.attribute("ignore_index")
    if len([name for name in call.node.output if name]) > 1:
        raise NoCounterpart("log_prob beside the loss")
    of_logits = call.node.op_type.startswith("Softmax")
    if call.given(2):
        name = "weighted_cross_entropy" if of_logits else "weighted_likelihood"
        return call.run(name, [x, labels, call.inputs[2]], **told)
    return call.run("softmax_cross_entropy" if of_logits else "negative_log_likelihood", [x, labels], **told)[:1]


def lacks(reason):
    raise NoCounterpart(reason)


def heads_apart(call, x, count):
    """(batch, length, heads * width) as (batch, heads, length, width)."""
    batch, length, width = x.shape
    return call.run("transpose", [shaped(call, x, (batch, length, count, width // count))], shape=(0, 2, 1, 3))[0]


@onnx_operator("Attention")
def attention(call):
    q, k, v = call.inputs[:3]
    if any(call.given(i) for i in range(4, len(call.inputs))):
        raise NoCounterpart("keys and values of the past, lengths without padding")
    if len([name for name in call.node.output if name]) > 1:
        raise NoCounterpart("the scores beside the result")
    if call.attribute("softcap", 0.0):
        raise NoCounterpart("softcap")
    for side in ("left_window_size", "right_window_size"):
        call.only(side, -1)
    call.only("softmax_precision", None, 1)
    call.attribute("qk_matmul_output_mode")
    joined = len(q.shape) == 3
    heads = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    if joined:
        q, k, v = (heads_apart(call, x, n) for x, n in zip((q, k, v), (heads[0], heads[1], heads[1])))
    how = {"causal": bool(call.attribute("is_causal", 0))}
    if call.attribute("scale"):
        how["scale"] = call.attribute("scale")
    mask = [call.inputs[3]] if call.given(3) else []
    if mask and mask[0].shape[-1] != k.shape[2]:
        raise NoCounterpart("a mask of fewer keys")
    result = call.run("scaled_dot_product_attention", [q, k, v, *mask], **how)[0]
    if not joined:
        return [result]
    batch, count, length, width = result.shape
    return [shaped(call, call.run("transpose", [result], shape=(0, 2, 1, 3))[0], (batch, length, count * width))]


@onnx_operator("Resize", "Upsample")
def resize(call):
    x = call.inputs[0]
    mode = call.only("mode", "nearest", "linear")
    if (
        len(x.shape) != 4
        or call.attribute("antialias", 0)
        or call.attribute("axes")
        or call.attribute("exclude_outside", 0)
    ):
        raise NoCounterpart("other than two axes, antialias, exclude_outside")
    call.only("keep_aspect_ratio_policy", "stretch")
    call.attribute("cubic_coeff_a"), call.attribute("extrapolation_value")
    transformation = call.attribute("coordinate_transformation_mode", "half_pixel")
    nearest = call.attribute("nearest_mode", "round_prefer_floor")
    sizes = call.host(3) if call.given(3) else None
    if not sizes:
        scales = call.host(2) if call.given(2) else call.host(1)
        exact = [extent * scale for extent, scale in zip(x.shape, scales)]
        if any(abs(size - round(size)) > 1e-6 for size in exact):
            raise NoCounterpart("scales that give no whole sizes")
        sizes = [round(size) for size in exact]
    if sizes[:2] != list(x.shape[:2]):
        raise NoCounterpart("a size of samples and channels")
    if mode == "nearest":
        if (transformation, nearest) != ("asymmetric", "floor"):
            raise NoCounterpart("nearest other than asymmetric, floor")
        return call.run("resize2d", [x], size=tuple(sizes[2:]))
    if transformation not in ("half_pixel", "align_corners"):
        raise NoCounterpart(f"coordinate_transformation_mode={transformation}")
    return call.run(
        "resize2d", [x], size=tuple(sizes[2:]), bilinear=True, align_corners=transformation == "align_corners"
    )
