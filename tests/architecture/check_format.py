#!/usr/bin/env python3
"""Every .h, .cpp, .cu and .cuh file is as clang-format 14 and the tree's .clang-format write it.

Another major version formats differently: the check is then skipped (exit 77), visibly.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import checker

VERSION = "14"


def find_formatter():
    for name in ("clang-format-" + VERSION, "clang-format"):
        path = shutil.which(name)
        if path is not None:
            said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", said):
                return path
    return None


def check(root):
    root = pathlib.Path(root)
    names = list(checker.files(root, checker.CODE))
    if not names:
        return []
    run = subprocess.run([find_formatter(), "--dry-run", "--Werror", "--style=file", *names], cwd=root,
                         capture_output=True, text=True)
    accused = sorted({line.split(":")[0] for line in run.stderr.splitlines() if "clang-format-violations" in line})
    if run.returncode != 0 and not accused:
        return [run.stderr]
    return [f"{name}: clang-format -i {name}" for name in accused]


STYLE = (pathlib.Path(__file__).parents[2] / ".clang-format").read_text()
CLEAN = {".clang-format": STYLE, "engine/a.h": "#pragma once\n\nint f(int* x);\n"}
PLANTS = [
    ("a host file", {"engine/b.cpp": "int  f( int *x );\n"}, "engine/b.cpp"),
    ("a device file", {"operator/b.cu": "__global__ void k(int *x){\n*x=1;}\n"}, "operator/b.cu"),
    ("a device header", {"operator/b.cuh": "int  x;\n"}, "operator/b.cuh"),
]

if __name__ == "__main__":
    if find_formatter() is None:
        print(f"SKIPPED: no clang-format {VERSION} here")
        sys.exit(77)
    checker.main(check, PLANTS, CLEAN)
