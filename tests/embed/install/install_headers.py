#!/usr/bin/env python3
"""Copies the public headers under the installation's include folder: install_headers.py SOURCE_ROOT INCLUDEDIR.

Public are the rooms' headers outside detail/ and engine/cuda, and whatever of detail/ those include. The tree under
include/sluice is the rooms' own, so `#include <sluice/engine/api.h>` is the same before and after installation.
"""
import os
import pathlib
import re
import shutil
import sys

ROOMS = ("engine", "storage", "ndarray", "operator", "gluon")
INCLUDE = re.compile(r"^#include <sluice/([^>]+)>", re.MULTILINE)


def is_private(relative):
    parts = relative.parts
    return "detail" in parts or relative.stem.endswith("_cuda") or parts[:2] == ("engine", "cuda")


def public_headers(root):
    """Relative paths of all headers to install, the sluice.h door apart."""
    root = pathlib.Path(root)
    wanted = [h.relative_to(root) for room in ROOMS for h in sorted((root / room).rglob("*.h"))]
    wanted = [h for h in wanted if not is_private(h)]
    seen = set(wanted)
    while wanted:
        for name in INCLUDE.findall((root / wanted.pop()).read_text()):
            included = pathlib.Path(name)
            if included not in seen and (root / included).is_file():
                seen.add(included)
                wanted.append(included)
    return sorted(seen)


def main():
    root, includedir = sys.argv[1:]
    target = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / includedir / "sluice"
    for header in public_headers(root):
        (target / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pathlib.Path(root) / header, target / header)
    for door in ("gluon/sluice.h", "operator/c_api/c_api.h"):
        if (target / door).exists():
            shutil.copyfile(target / door, target / pathlib.Path(door).name)


if __name__ == "__main__":
    main()
