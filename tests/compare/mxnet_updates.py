"""Twenty steps of rules that MXNet has and PyTorch has not, or has otherwise, by MXNet's own optimizers and by the
operators here: mxnet_updates.py --library libsluice.so. Weights are compared after each step; all must be equal within
1e-5 of the largest. Exit code 77 without MXNet, which needs NumPy before 1.24: tests/compare/install mxnet."""

import argparse
import ctypes
import pathlib
import sys

try:
    import mxnet as mx
    import numpy
except (ImportError, AttributeError) as missing:  # a NumPy that is too new has no numpy.bool
    print(f"no comparison with MXNet's optimizers: {missing}; tests/compare/install mxnet")
    sys.exit(77)

TOLERANCE, STEPS, SHAPE = 1e-5, 20, (5, 7)
BETAS = {"beta1": 0.8, "beta2": 0.95}
# By name here: MXNet's, settings of both, how many states, whether steps are counted. MXNet's DCASGD fails with a
# momentum (it asks whether an array is true), and its Nadam is compared by one parameter, since all share a product.
RULES = {
    "adamax_update": ("Adamax", BETAS, 2, True),
    "nadam_update": ("Nadam", {**BETAS, "epsilon": 1e-3, "schedule_decay": 0.2}, 2, True),
    "ftml_update": ("FTML", {**BETAS, "epsilon": 1e-3}, 3, True),
    "sgld_update": ("SGLD", {}, 1, False),
    "dcasgd_update": ("DCASGD", {"lamda": 0.5}, 1, False),
    "signum_update": ("Signum", {"momentum": 0.7, "wd_lh": 0.1}, 1, False),
    "ftrl_update": ("Ftrl", {"lamda1": 0.1, "beta": 0.5}, 2, False),
}


class Library:
    """As much of the C interface as updates need: client.py's needs PyTorch."""

    def __init__(self, path):
        self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
        self.c.sluice_error_message.restype = ctypes.c_char_p
        self.c.sluice_array_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def check(self, status):
        if status != 0:
            raise ValueError(self.c.sluice_error_message().decode(errors="replace"))

    def array(self, values):
        values = numpy.ascontiguousarray(values, numpy.float32)
        handle, shape = ctypes.c_void_p(), (ctypes.c_int64 * values.ndim)(*values.shape)
        data = ctypes.c_void_p(values.ctypes.data)
        self.check(self.c.sluice_array_create(data, b"float32", values.ndim, shape, b"cpu", ctypes.byref(handle)))
        return handle

    def read(self, handle, like):
        values = numpy.empty_like(like)
        self.check(self.c.sluice_array_read(handle, values.ctypes.data, values.nbytes))
        return values

    def update(self, op, arrays, attributes):
        text = ", ".join(f"{name}={value!r}" for name, value in attributes.items())
        handles, count = (ctypes.c_void_p * len(arrays))(*arrays), ctypes.c_size_t()
        sizes = (ctypes.c_size_t(len(arrays)), ctypes.c_size_t(0))
        self.check(self.c.sluice_invoke(op.encode(), handles, sizes[0], text.encode(), None, sizes[1], ctypes.byref(count)))


def difference(library, op):
    """The largest between the weights of both over all steps, as a part of the largest weight."""
    theirs, settings, states, counts = RULES[op]
    draw = numpy.random.RandomState(7)
    weight = draw.uniform(-1, 1, SHAPE).astype(numpy.float32)
    common = {"learning_rate": 0.05, "wd": 0.03, "rescale_grad": 0.5}
    optimizer = mx.optimizer.create(theirs.lower(), **common, **settings)
    there = mx.nd.array(weight)
    state = optimizer.create_state(0, there)
    begin = weight if op == "dcasgd_update" else numpy.zeros_like(weight)
    mine, kept, largest = library.array(weight), [library.array(begin) for _ in range(states)], 0.0
    for step in range(1, STEPS + 1):
        gradient = draw.uniform(-1, 1, SHAPE).astype(numpy.float32)
        if op == "sgld_update":
            noise = draw.standard_normal(SHAPE).astype(numpy.float32)
            mx.optimizer.optimizer.normal = lambda mean, deviation, noise=noise, **_: mx.nd.array(deviation * noise)
            kept = [library.array(noise)]
        optimizer.update(0, there, mx.nd.array(gradient), state)
        told = {"learning_rate": 0.05, "weight_decay": 0.03, "rescale_grad": 0.5, **settings}
        library.update(op, [mine, library.array(gradient), *kept], {**told, **({"steps": (step,)} if counts else {})})
        wanted, found = there.asnumpy(), library.read(mine, weight)
        if not numpy.isfinite(wanted).all() or numpy.abs(wanted - weight).max() < 1e-3:
            raise ValueError("MXNet's step says nothing")
        largest = max(largest, float(numpy.abs(found - wanted).max() / numpy.abs(wanted).max()))
    return largest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="libsluice.so")
    options, _ = parser.parse_known_args()
    library = Library(options.library)
    failed = 0
    for op in RULES:
        try:
            part = difference(library, op)
            said, is_good = f"{part:.1e}", part <= TOLERANCE
        except ValueError as error:
            said, is_good = str(error), False
        print(f"{'ok   ' if is_good else 'WRONG'} {op:20} {said}", flush=True)
        failed += not is_good
    print(f"{len(RULES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
