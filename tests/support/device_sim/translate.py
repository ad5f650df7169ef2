#!/usr/bin/env python3
"""Device code as C++ for the host: translate.py ROOT OUTPUT writes the .cu and .cuh files of the rooms to the folder OUTPUT,
launches of kernels turned into calls of device_sim::launch; translate.py --list ROOT names them and what they become. All
else of CUDA's language is macros and functions of device.h.
"""
import pathlib
import re
import sys

ROOMS = ("ndarray", "operator")
INCLUDE = re.compile(r'#include <sluice/((?:ndarray|operator)/[\w/]+\.cuh)>')
CLOSING = {"(": ")", "[": "]", "{": "}"}
RELEASE = re.compile(r'asm volatile\("st\.release\.sys\.global\.u64.*?\);', re.DOTALL)


def closing(code, start):
    """The place of the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(code)):
        if code[place] in CLOSING:
            depth += 1
        elif code[place] in CLOSING.values():
            depth -= 1
            if depth == 0:
                return place
    raise ValueError(f"nothing closes the bracket in: {code[start:start + 60]}")


def kernel_begin(code, end):
    """Where the name of the kernel that ends before `end` begins, template arguments behind it included."""
    place = end
    while code[place - 1].isspace():
        place -= 1
    if code[place - 1] == ">":
        depth = 0
        while True:
            place -= 1
            depth += {">": 1, "<": -1}.get(code[place], 0)
            if depth == 0:
                break
    while re.match(r"[\w:]", code[place - 1]):
        place -= 1
    return place


def translated(code):
    code = RELEASE.sub("__atomic_store_n(flag, sequence, __ATOMIC_RELEASE);", code)
    place = 0
    while (place := code.find("<<<", place)) >= 0:
        if "//" in code[code.rfind("\n", 0, place) + 1:place]:
            place += 3
            continue
        begin = kernel_begin(code, place)
        end = place + 3
        while not code.startswith(">>>", end):
            end = closing(code, end) + 1 if code[end] in CLOSING else end + 1
        config, name = code[place + 3:end], code[begin:place].strip()
        first = code.index("(", end)
        last = closing(code, first)
        values = code[first + 1:last].strip()
        call = (f"::device_sim::launch(::device_sim::Config({config}), [=](const auto&... values_of_launch) "
                f"{{ {name}(values_of_launch...); }}{', ' if values else ''}{values})")
        code = code[:begin] + call + code[last + 1:]
        place = begin + 1
    return code


def flat(name):
    """The name of the translation of a file, with its folders in it."""
    plain = name.replace("/", "_")
    return plain[:-3] + ".cpp" if name.endswith(".cu") else plain[:-4] + "_cuh.h"


def device_files(root):
    """The device code of the rooms that have any, but for what only asks the GPU whether it runs on it."""
    return sorted(
        str(path.relative_to(root)) for room in ROOMS for path in (root / room).rglob("*")
        if path.suffix in (".cu", ".cuh") and path.name != "gpu_probe_cuda.cu")


def main():
    if sys.argv[1] == "--list":
        names = device_files(pathlib.Path(sys.argv[2]))
        print("\n".join(f"{name} {flat(name)}" for name in names))
        return
    root, output = map(pathlib.Path, sys.argv[1:3])
    for name in device_files(root):
        source, target = root / name, output / flat(name)
        code = INCLUDE.sub(lambda found: f'#include "{flat(found[1])}"', translated(source.read_text()))
        text = f'#line 1 "{source}"\n' + code
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    main()
