#!/usr/bin/env python3
"""Runs a program of this folder with the environment that `install` has made, if there is one: run_compare.py BUILD
PROGRAM [arguments]. Exit code 77 and a line that says so where there is none and this Python has no PyTorch, or for
mxnet_zoo.py no MXNet."""

import os
import pathlib
import sys


def main():
    build, program, *arguments = sys.argv[1:]
    made = pathlib.Path(build) / ("compare-mxnet" if program.startswith("mxnet") else "compare") / "bin" / "python"
    python = str(made) if made.exists() else sys.executable
    sys.stdout.flush()
    os.execv(python, [python, str(pathlib.Path(__file__).with_name(program)), *arguments])


if __name__ == "__main__":
    main()
