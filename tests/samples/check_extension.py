#!/usr/bin/env python3
"""The parts of the sample extension: kernels of one's own. See harness.py."""
import pathlib
import re

import harness
from harness import PROGRAMS, Skipped, device, expect, run


def part(name):
    result = run("extension", name, "--device", device())
    expect(result.returncode == 0, name, result)
    if "left out" in result.stdout:
        raise Skipped(result.stdout.strip())
    return result


def check_vector_add(_):
    result = part("vector_add")
    expect("1000000 sums on gpu(0), all right" in result.stdout, "vector_add", result)


def check_doubling(folder):
    result = part("doubling")
    expect("[ 0.  2.  8. 18. 32.]" in result.stdout and "[ 0.  4.  8. 12. 16.]" in result.stdout, "doubling", result)
    result = run("extension", "doubling", "--object", folder / "none.so", "--device", device())
    expect(result.returncode == 1 and "none.so" in result.stderr, "an object that is not there", result)
    beside = pathlib.Path(PROGRAMS["extension"]).parent / "extension_doubling.so"
    result = run("extension", "doubling", "doubling", "--object", beside, "--device", device())
    expect(result.returncode == 0 and result.stdout.count("doubling:") == 2, "an object that is named, twice", result)


def check_convolution(_):
    result = part("convolution")
    expect(re.search(r"\(3, 38, 46\) on .*; off the library's by \d", result.stdout), "convolution", result)


def check_legacy_stream(_):
    result = part("legacy_stream")
    expect("1048576 of 1048576 numbers are right" in result.stdout, "legacy_stream", result)


def check_all(_):
    result = run("extension", "--device", device())
    expect(result.returncode == 0, "all parts", result)
    names = [line.split(":")[0] for line in result.stdout.splitlines()]
    expect(names == ["vector_add", "doubling", "convolution", "legacy_stream"], f"in their order: {names}", result)
    result = run("extension", "nothing")
    expect(result.returncode == 2 and "nothing" in result.stderr, "a part that there is not", result)
    expect(run("extension", "--object", "").returncode == 2, "an object without a name")


if __name__ == "__main__":
    harness.main(globals())
