#!/usr/bin/env python3
"""Every header compiles alone, and twice: check_headers.py [--doors | --together] ROOT COMPILER [flags].

--doors takes the doors alone: what programs include. --together compiles the rooms' headers as one: two that define one
name differently would be mixed up by the linker where no file includes both. `.cuh` files need nvcc: left out. Headers of engine/cuda are
measured where the flags define SLUICE_CUDA.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import checker


def headers(root, with_cuda):
    for name in checker.files(root, {".h"}):
        top = name.split("/")[0]
        if name.startswith("tests/engine/model/weak/") and not pathlib.Path("/usr/include/relacy").is_dir():
            continue  # the test that includes them is skipped there
        if top in [*checker.ROOMS, "samples", "tests"] and (with_cuda or not checker.is_cuda_file(name)):
            yield name


# Besides each api.h: what a program includes for one purpose, and what README names.
OTHER_DOORS = {"gluon/sluice.h", "engine/asio.h", "engine/interop.h", "engine/region.h"}


def is_door(name):
    return name.endswith("/api.h") and name.split("/")[0] in checker.ROOMS or name in OTHER_DOORS


def written(name):
    """How the header is included: rooms through <sluice/...>, the others from the root."""
    if name == "gluon/sluice.h":
        return "<sluice/sluice.h>"
    return f"<sluice/{name}>" if name.split("/")[0] in checker.ROOMS else f'"{name}"'


def compile_alone(root, name, compiler):
    line = f"#include {written(name)}\n"
    command = [*compiler, f"-I{root}", "-fsyntax-only", "-x", "c++", "-"]
    run = subprocess.run(command, input=line + line, capture_output=True, text=True)
    if run.returncode == 0:
        return None
    lines = run.stderr.splitlines()
    return f"{name}: " + next((text for text in lines if "error" in text or "warning" in text), "failed")


def check_with(root, compiler, chosen=lambda name: True):
    names = [name for name in headers(root, "-DSLUICE_CUDA=1" in compiler) if chosen(name)]
    if not names:
        return ["no header to compile"]
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 2)) as pool:
        return [found for found in pool.map(lambda name: compile_alone(root, name, compiler), names) if found]


def is_for_one_compiler(root, name):
    """Device code, and what is compiled for each set of instructions in a namespace of that."""
    text = (pathlib.Path(root) / name).read_text()
    return "HWY_TARGET" in text or ".cuh>" in text


def check_together(root, compiler):
    names = [name for name in headers(root, "-DSLUICE_CUDA=1" in compiler) if name.split("/")[0] in checker.ROOMS]
    lines = [f"#include {written(name)}\n" for name in names if not is_for_one_compiler(root, name)]
    command = [*compiler, f"-I{root}", "-fsyntax-only", "-x", "c++", "-"]
    run = subprocess.run(command, input="".join(lines), capture_output=True, text=True)
    found = [line for line in run.stderr.splitlines() if "error" in line]
    return found or ([] if lines and run.returncode == 0 else ["failed"])


def check_planted(root):
    """For the self test: links to the planted rooms, as the build folder has them."""
    root = pathlib.Path(root)
    (root / "include/sluice").mkdir(parents=True, exist_ok=True)
    for room in checker.ROOMS:
        link = root / "include/sluice" / room
        if (root / room).is_dir() and not link.exists():
            link.symlink_to(root / room)
    compiler = ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{root}/include"]
    return check_with(root, compiler) or check_together(root, compiler)


CLEAN = {"engine/a.h": "#pragma once\n#include <vector>\nstruct A {\n  std::vector<int> x;\n};\n",
         "storage/a.h": "#pragma once\n#include <sluice/engine/a.h>\ninline A a;\n"}
PLANTS = [
    ("a header that leans on another's includes", {"engine/b.h": "#pragma once\ninline std::vector<int> x;\n"}, "engine/b.h"),
    ("a header without a guard", {"engine/b.h": "struct B {};\n"}, "engine/b.h"),
    ("a warning", {"engine/b.h": "#pragma once\ninline bool f(int a, unsigned b) { return a < b; }\n"}, "engine/b.h"),
    ("two headers with one name", {"engine/b.h": "#pragma once\ninline int f() { return 1; }\n",
                                   "storage/b.h": "#pragma once\ninline int f() { return 2; }\n"}, "storage/b.h"),
    ("a door with a warning", {"engine/api.h": "#pragma once\ninline int f(int unused) { return 0; }\n"}, "engine/api.h"),
]


def main(arguments):
    if arguments == ["--self-test"]:
        checker.main(check_planted, PLANTS, CLEAN)
    doors, together = arguments[:1] == ["--doors"], arguments[:1] == ["--together"]
    root, *compiler = arguments[1:] if doors or together else arguments
    if not compiler:
        sys.exit("usage: check_headers.py [--doors | --together] ROOT COMPILER [flags] | --self-test")
    found = check_together(root, compiler) if together else check_with(root, compiler, is_door if doors else lambda name: True)
    print("\n".join([*found, f"{len(found)} offences"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
