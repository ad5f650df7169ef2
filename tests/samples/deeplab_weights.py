"""torchvision's state dict of deeplabv3_resnet50, as a .safetensors file, without torchvision: of all channels only the
first is passed on, by red in the image, and says a class where it is large."""
import json
import struct


def bottlenecks():
    """What a ResNet of 50 layers is made of: prefix, channels in, within and out."""
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            within = 64 << stage
            yield f"backbone.layer{stage + 1}.{i}.", channels, within, 4 * within
            channels = 4 * within


def layers():
    """Name, shape of weights, whether the first channel passes."""
    yield "backbone.conv1", (64, 3, 7, 7), True
    yield "backbone.bn1", (64,), True
    for prefix, before, within, after in bottlenecks():
        for number, shape in enumerate(((within, before, 1, 1), (within, within, 3, 3), (after, within, 1, 1)), 1):
            yield f"{prefix}conv{number}", shape, False
            yield f"{prefix}bn{number}", shape[:1], False
        if prefix.endswith(".0."):
            yield f"{prefix}downsample.0", (after, before, 1, 1), True
            yield f"{prefix}downsample.1", (after,), True
    for number, side in enumerate((1, 3, 3, 3)):
        yield f"classifier.0.convs.{number}.0", (256, 2048, side, side), number == 0
        yield f"classifier.0.convs.{number}.1", (256,), number == 0
    yield "classifier.0.convs.4.1", (256, 2048, 1, 1), False
    yield "classifier.0.convs.4.2", (256,), False
    yield "classifier.0.project.0", (256, 1280, 1, 1), True
    yield "classifier.0.project.1", (256,), True
    yield "classifier.1", (256, 256, 3, 3), True
    yield "classifier.2", (256,), True
    yield "classifier.4", (21, 256, 1, 1), False


def write(path, said):
    """Pixels whose red, counted in ImageNet's deviations, is above 1.5 are of class `said`, others of class 0. Zeros are
    a hole in the file."""
    header, values, size = {}, {}, 0

    def add(name, shape, ones=()):
        nonlocal size
        count = 1
        for extent in shape:
            count *= extent
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [size, size + 4 * count]}
        values.update((size + 4 * at, value) for at, value in ones)
        size += 4 * count

    for name, shape, passes in layers():
        if name == "classifier.4":
            add(f"{name}.weight", shape, [(said * 256, 1.0)])
            add(f"{name}.bias", shape[:1], [(0, 1.5)])
        elif len(shape) == 4:
            middle = shape[2] * shape[3] // 2
            add(f"{name}.weight", shape, [(middle, 1.0)] if passes else ())
        else:
            add(f"{name}.weight", shape, [(0, 1.0)] if passes else ())
            add(f"{name}.bias", shape)
            add(f"{name}.running_mean", shape)
            add(f"{name}.running_var", shape, [(i, 1.0) for i in range(shape[0])])
            header[f"{name}.num_batches_tracked"] = {"dtype": "I64", "shape": [], "data_offsets": [size, size + 8]}
            size += 8
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)
        for at, value in values.items():
            file.seek(8 + len(text) + at)
            file.write(struct.pack("<f", value))
