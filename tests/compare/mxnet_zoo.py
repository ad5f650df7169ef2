"""Every model of MXNet's gluon.model_zoo.vision, exported by MXNet and run here: mxnet_zoo.py --forward PROGRAM [--only
NAME ..]. MXNet draws the weights; biases, scales and running statistics are then moved, so that two that are swapped
give other results. Three results are compared with MXNet's: of the symbol that was imported, of it through a file of
our own, and of the model of that name in the zoo here with the same parameters. All must be equal within 1e-5 of the
largest number. Exit code 77 without MXNet, which needs NumPy before 1.24: tests/compare/install mxnet."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import mxnet as mx
    import numpy
    from mxnet.gluon.model_zoo import vision
except (ImportError, AttributeError) as missing:  # a NumPy that is too new has no numpy.bool
    print(f"no comparison with MXNet's zoo: {missing}; tests/compare/install mxnet")
    sys.exit(77)

TOLERANCE = 1e-5
WANTED = ("symbol", "graph", "zoo")
# Sides of images; those whose layers' sizes go by the image are given what they are made for.
MODELS = {
    **{f"resnet{layers}_v{version}": 64 for version in (1, 2) for layers in (18, 34, 50, 101, 152)},
    **{f"vgg{layers}{norm}": 224 for norm in ("", "_bn") for layers in (11, 13, 16, 19)},
    "alexnet": 224,
    **{f"densenet{layers}": 224 for layers in (121, 161, 169, 201)},
    **{f"squeezenet1.{number}": 224 for number in (0, 1)},
    "inceptionv3": 299,
    **{f"{family}{part}": 64 for family in ("mobilenet", "mobilenetv2_") for part in ("1.0", "0.75", "0.5", "0.25")},
}


def blocks_of(block):
    yield block
    for child in block._children.values():
        yield from blocks_of(child)


def moved(net, draw):
    """Every bias, scale and shift is some other number than the one it begins with."""
    for name, parameter in net.collect_params().items():
        span = (0.8, 1.2) if name.endswith("gamma") else (-0.1, 0.1) if name.endswith(("beta", "bias")) else None
        if span is not None:
            parameter.set_data(mx.nd.array(draw.uniform(*span, parameter.shape)))


def settle(net, x):
    """Running statistics on the way to what the layers see. Those that are what one batch says make networks of which
    float32 leaves few digits."""
    norms = [block for block in blocks_of(net) if isinstance(block, mx.gluon.nn.BatchNorm)]
    for block in norms:
        block._kwargs["momentum"] = 0.7
    for _ in range(2):
        with mx.autograd.train_mode():
            net(x).wait_to_read()
    for block in norms:
        block._kwargs["momentum"] = 0.9


def images(draw, count, side):
    """Patches of eight pixels and noise, so that a mean over an image is its own."""
    patches = draw.standard_normal((count, 3, side // 8 + 1, side // 8 + 1)).repeat(8, 2).repeat(8, 3)
    noise = draw.standard_normal((count, 3, side, side))
    return mx.nd.array((patches[:, :, :side, :side] + 0.5 * noise).astype(numpy.float32))


def compare(program, name, side):
    """The largest difference as a part of the largest number, by result; raises ValueError where none is to be had."""
    mx.random.seed(3)
    draw = numpy.random.RandomState(4)
    net = vision.get_model(name)
    net.initialize(mx.init.MSRAPrelu("in", 0))
    x = images(draw, 2, side)
    net(x).wait_to_read()
    moved(net, draw)
    settle(net, images(draw, 4, side))
    net.hybridize()
    wanted = net(x).asnumpy()
    with tempfile.TemporaryDirectory() as folder:
        prefix, given, result = (str(pathlib.Path(folder) / file) for file in ("net", "x.npz", "y.npz"))
        net.export(prefix)
        net.save_parameters(f"{prefix}.params")
        numpy.savez(given, x=x.asnumpy())
        ran = subprocess.run([program, prefix, name, given, result], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise ValueError(ran.stderr.strip()[:400])
        with numpy.load(result) as arrays:
            found = {what: arrays[what] for what in arrays.files}
    if not numpy.isfinite(wanted).all() or numpy.abs(wanted).max() == 0 or numpy.ptp(wanted) < 0.1 * numpy.abs(wanted).max():
        raise ValueError("MXNet's result says nothing")
    if numpy.abs(wanted[0] - wanted[1]).max() < 0.01 * numpy.abs(wanted).max():
        raise ValueError("two images give the same in MXNet: the weights do not let anything through")
    for what in WANTED:
        if found[what].shape != wanted.shape:
            raise ValueError(f"{what}: shape {found[what].shape}, MXNet {wanted.shape}")
    return {what: float(numpy.abs(found[what] - wanted).max() / numpy.abs(wanted).max()) for what in WANTED}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward", required=True, help="the program mxnet_forward")
    parser.add_argument("--only", nargs="*", default=[], help="names")
    options, _ = parser.parse_known_args()
    warnings.simplefilter("ignore")
    failed = passed = 0
    for name, side in MODELS.items():
        if options.only and name not in options.only:
            continue
        try:
            differences = compare(options.forward, name, side)
            said = ", ".join(f"{what} {part:.1e}" for what, part in differences.items())
            is_good = all(part <= TOLERANCE for part in differences.values())
        except ValueError as error:
            said, is_good = str(error), False
        print(f"{'ok   ' if is_good else 'WRONG'} {name:20} {said}", flush=True)
        passed, failed = passed + is_good, failed + (not is_good)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
