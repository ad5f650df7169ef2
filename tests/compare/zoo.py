"""Models of the zoo against torchvision's of the same weights: zoo.py --forward PROGRAM [--only NAME ..]. torchvision
draws the weights; all parameters and running statistics are then moved, so that two that are swapped give other
results. They go through a .safetensors file, of which the order is that of the names. Results in float32 must be equal
within 1e-5 of the largest. Exit code 77 without torchvision and safetensors."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"no comparison of the zoo: {missing}; pip install torchvision safetensors beside PyTorch")
    sys.exit(77)

TOLERANCE = 1e-5
# Here and at torchvision's, and images' sides.
CLASSIFIERS = [
    *((name, name, 224) for name in ("alexnet", "vgg11", "vgg13", "vgg16", "vgg19")),
    *((f"{name}_bn", f"{name}_bn", 224) for name in ("vgg11", "vgg13", "vgg16", "vgg19")),
    *((f"resnet{n}_v1b", f"resnet{n}", 64) for n in (18, 34, 50, 101, 152)),
    *((name, name, 64) for name in ("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d")),
    *((name, name, 64) for name in ("wide_resnet50_2", "wide_resnet101_2")),
    *((f"densenet{n}", f"densenet{n}", 224) for n in (121, 161, 169, 201)),
    *((f"squeezenet1.{n}", f"squeezenet1_{n}", 224) for n in (0, 1)),
    ("inceptionv3", "inception_v3", 299),
    ("mobilenetv2b_1.0", "mobilenet_v2", 64),
    ("mobilenet_v3_large", "mobilenet_v3_large", 64),
    ("mobilenet_v3_small", "mobilenet_v3_small", 64),
    *((f"efficientnet_b{n}", f"efficientnet_b{n}", 64) for n in range(8)),
    ("vit_b_16", "vit_b_16", 224),
]
SEGMENTATION = [
    ("fcn_resnet50", True),
    ("fcn_resnet101", False),
    ("deeplabv3_resnet50", True),
    ("deeplabv3_resnet101", False),
    ("deeplabv3_mobilenet_v3_large", True),
]


def moved(model):
    """Every parameter and statistic is some other number than the one it begins with, of a size that lets results be."""
    generator = torch.Generator().manual_seed(5)

    def some(like, low, high):
        return torch.rand(like.shape, generator=generator) * (high - low) + low

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):
                module.weight.copy_(some(module.weight, 0.8, 1.2))
                module.bias.copy_(some(module.bias, -0.2, 0.2))
            elif getattr(module, "bias", None) is not None and isinstance(module.bias, torch.Tensor):
                module.bias.add_(some(module.bias, -0.1, 0.1))
            for name in ("in_proj_bias", "class_token", "pos_embedding"):
                own = module._parameters.get(name)
                if own is not None:
                    own.copy_(some(own, -0.5, 0.5))
            if isinstance(module, torch.nn.Linear) and module.weight.abs().max() == 0:
                module.weight.copy_(some(module.weight, -0.1, 0.1))  # a transformer's head begins at zero
    return model


def settle(model, x):
    """Running statistics on the way to what the layers see: those of another layer, or swapped, do not fit. Those that
    are what one batch says make networks of which float32 leaves four digits."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.3
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    with torch.no_grad():
        for _ in range(2):
            model(x)
    model.eval()


def made(name):
    torch.manual_seed(3)
    if name in dict(SEGMENTATION):
        function = getattr(torchvision.models.segmentation, name)
        return function(weights=None, weights_backbone=None, aux_loss=True)
    extra = {"init_weights": True} if name == "inception_v3" else {}
    return getattr(torchvision.models, name)(weights=None, **extra)


def outputs(model, x):
    with torch.no_grad():
        given = model(x)
    return [given] if isinstance(given, torch.Tensor) else list(given.values())


def compare(program, ours, theirs, size):
    """The largest difference as a part of the largest number, of each result; raises ValueError where none is to be had."""
    model = moved(made(theirs))
    generator = torch.Generator().manual_seed(4)
    height, width = (size, size) if isinstance(size, int) else size
    x = torch.randn((2, 3, height, width), generator=generator)
    settle(model, torch.randn((4, 3, height, width), generator=generator))
    wanted = outputs(model, x)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(pathlib.Path(folder) / f"{what}.safetensors") for what in ("weights", "input", "result")]
        save_file({name: array.contiguous() for name, array in model.state_dict().items()}, files[0])
        save_file({"x": x}, files[1])
        result = subprocess.run([program, ours, *files], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ValueError(result.stderr.strip()[:400])
        found = load_file(files[2])
    differences = []
    for number, array in enumerate(wanted[: len(found)]):
        got = found[f"y{number}"]
        if got.shape != array.shape or not bool(got.isfinite().all()) or float(array.abs().max()) == 0:
            raise ValueError(f"shape {tuple(got.shape)}, torchvision {tuple(array.shape)}; or no numbers")
        differences.append(float((got - array).abs().max() / array.abs().max()))
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward", required=True, help="the program zoo_forward")
    parser.add_argument("--only", nargs="*", default=[], help="names here")
    options, _ = parser.parse_known_args()
    torch.set_num_threads(2)
    models = CLASSIFIERS + [(name, name, (64, 48)) for name, _ in SEGMENTATION]
    failed = passed = 0
    for ours, theirs, size in models:
        if options.only and ours not in options.only:
            continue
        try:
            differences = compare(options.forward, ours, theirs, size)
            wrong = [part for part in differences if not part <= TOLERANCE]
            wants = 2 if dict(SEGMENTATION).get(ours) else 1
            said = ", ".join(f"{part:.1e}" for part in differences)
            said += "" if len(differences) == wants else f" of {wants} results"
            is_good = not wrong and len(differences) == wants
        except ValueError as error:
            said, is_good = str(error), False
        print(f"{'ok   ' if is_good else 'WRONG'} {ours:30} {said}", flush=True)
        passed, failed = passed + is_good, failed + (not is_good)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
