#!/usr/bin/env python3
"""Shows that the comparison finds what is wrong: self_test.py [--library libsluice.so]. Exit code 77 without PyTorch."""

import argparse
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
try:
    import torch
except ImportError:
    print("there is no PyTorch; tests/compare/install makes an environment with it")
    print("\ntest cases: 0 passed, 0 failed, 1 skipped")
    sys.exit(SKIPPED)

import client  # noqa: E402
import decided  # noqa: E402
import judging  # noqa: E402
import running  # noqa: E402
from table import Call, of  # noqa: E402


def check_distances(_):
    """One unit is one unit, at powers of two and for each type; what is no number is far from every number."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        eps = torch.finfo(dtype).eps
        for size in (1.0, 1.5, 8.0, 0.25):
            one = torch.tensor([size], dtype=dtype)
            unit = eps * 2 ** math.floor(math.log2(size))
            near = (one.double() + unit).to(dtype)
            verdict = judging.judge(near, one.double(), 0.5, 0.0, True)
            assert not verdict.ok and abs(verdict.error - 1) < 1e-6, (dtype, size, verdict)
            assert judging.judge(near, one.double(), 1.0, 0.0, True).ok
    got, wanted = torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert not judging.judge(got, wanted, 1e9, "largest", True).ok
    assert not judging.judge(torch.tensor([3.4e38]), torch.tensor([math.inf]).double(), 1e9, 0.0, True).ok
    assert not judging.judge(torch.tensor([math.inf]), torch.tensor([-math.inf]).double(), 1e9, 0.0, True).ok


def check_strictness(_):
    """Signs of zeros, shapes, whole numbers; and what PyTorch gives in the type is good enough."""
    zero, minus = torch.tensor([0.0]), torch.tensor([-0.0]).double()
    assert not judging.judge(zero, minus, 4, 0.0, True).ok
    assert judging.judge(zero, minus, 4, 0.0, False).ok
    assert not judging.judge(torch.zeros(2, 1), torch.zeros(1, 2).double(), 4, 0.0, True).ok
    assert not judging.judge(torch.tensor([3]), torch.tensor([4]), 1e9, 0.0, True).ok
    far = torch.tensor([2.0])
    assert not judging.judge(far, torch.tensor([1.0]).double(), 4, 0.0, True).ok
    assert judging.judge(far, torch.tensor([1.0]).double(), 4, 0.0, True, other=torch.tensor([2.0])).ok


def differences(library, op, call):
    comparison = running.Comparison(library, 1)
    comparison.run(op, call)
    return {difference.what for difference in comparison.differences}


def check_planted_faults(library):
    """Another function, another gradient, another gradient of the gradient, another type, a call that is refused."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.exp(x)

        @staticmethod
        def backward(ctx, dy):
            return dy * torch.exp(ctx.saved_tensors[0].detach())

    told = {"types": ("float32",), "layouts": ("contiguous", "transposed")}
    assert differences(library, "exp", Call(of((3, 4)), torch.exp, **told)) == set()
    assert "result" in differences(library, "exp", Call(of((3, 4)), torch.expm1, **told))
    assert differences(library, "exp", Call(of((3, 4)), Wrong.apply, **told)) == {"second gradient 0"}
    detached = differences(library, "exp", Call(of((3, 4)), lambda x: torch.exp(x.detach()), **told))
    assert detached == {"gradient 0"}
    halved = Call(of((3, 4)), lambda x: torch.exp(x).half(), **told)
    assert "type of result 0" in differences(library, "exp", halved)
    assert differences(library, "exp", Call(of((3, 4), (3, 4)), lambda a, b: a, **told)) == {"call"}
    assert differences(library, "exp", Call(of((3, 4)), lambda x: x @ x, **told)) == {"reference"}


def check_decisions(library):
    """A decision is about its operators and calls alone."""
    call = Call(of((3, 4)), torch.expm1, types=("float32",))
    comparison = running.Comparison(library, 1)
    comparison.run("exp", call)
    assert comparison.differences and not any(decided.decision_on(each) for each in comparison.differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default=ROOT / "build" / "libsluice.so")
    library = client.Library(parser.parse_args().library)
    checks = (check_distances, check_strictness, check_planted_faults, check_decisions)
    for check in checks:
        check(library)
    print(f"\ntest cases: {len(checks)} passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
