"""Samples and windows of images."""

from onnx_call import NoCounterpart, cast, onnx_operator


@onnx_operator("Col2Im")
def columns_to_image(call):
    size, kernel = call.host(1), call.host(2)
    if len(size) != 2:
        raise NoCounterpart(f"{len(size)} spatial axes")
    return call.run(
        "col2im",
        call.inputs[:1],
        output_size=tuple(size),
        kernel=tuple(kernel),
        stride=tuple(call.attribute("strides") or (1, 1)),
        pad=tuple(call.attribute("pads") or (0, 0, 0, 0)),
        dilation=tuple(call.attribute("dilations") or (1, 1)),
    )


@onnx_operator("GridSample")
def grid_sample(call):
    mode = call.attribute("mode", "linear")
    if mode not in ("linear", "bilinear", "nearest") or len(call.inputs[0].shape) != 4:
        raise NoCounterpart(f"mode={mode} of {len(call.inputs[0].shape) - 2} spatial axes")
    padding = call.attribute("padding_mode", "zeros")
    return call.run(
        "grid_sample",
        call.inputs,
        nearest=mode == "nearest",
        border=padding == "border",
        reflection=padding == "reflection",
        align_corners=bool(call.attribute("align_corners", 0)),
    )


@onnx_operator("RoiAlign")
def roi_align(call):
    x, rois, images = call.inputs
    call.only("mode", "avg")
    # Boxes name their image in front of their corners.
    numbers = call.run("expand_dims", [cast(call, images, rois.dtype)], axis=1)[0]
    corners = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    return call.run(
        "roi_align",
        [x, call.run("concat", [numbers, rois], axis=1)[0]],
        pooled_size=(call.attribute("output_height", 1), call.attribute("output_width", 1)),
        spatial_scale=call.attribute("spatial_scale", 1.0),
        sampling_ratio=call.attribute("sampling_ratio", 0),
        aligned=call.attribute("coordinate_transformation_mode", corners) == "half_pixel",
    )
