#!/usr/bin/env python3
"""Headers as strings in the library, for kernels compiled at run time: embed.py ROOT OUTPUT writes them as C++; the names
of standard and CUDA headers that they include stand for fused/detail/standard.h, those of the host for host_side.h.
"""
import pathlib
import re
import sys

# What fused/detail/reduction_kernels.h includes, and so on. A header that is missing here is found out when OUTPUT is written.
HEADERS = [
    "engine/export.h",
    "ndarray/convert.h",
    "ndarray/dtype.h",
    "ndarray/half.h",
    "ndarray/neighbours.cuh",
    "ndarray/start_early.cuh",
    "ndarray/strided.cuh",
    "operator/elementwise/binary.def",
    "operator/elementwise/each_parameter.h",
    "operator/elementwise/math.h",
    "operator/elementwise/rows.h",
    "operator/elementwise/sigmoid.h",
    "operator/elementwise/special.h",
    "operator/elementwise/unary.def",
    "operator/elementwise/whole.h",
    "operator/floating.h",
    "operator/fused/detail/host_side.h",
    "operator/fused/detail/kernels.h",
    "operator/fused/detail/reduction_kernels.h",
    "operator/fused/detail/standard.h",
    "operator/group.cuh",
    "operator/reduce/reduce.def",
    "operator/reduce/reduce_kernels.cuh",
    "operator/reduce/row_states.h",
    "operator/reduce/split.h",
    "operator/reduce/states.h",
]
# Of the host alone: what device code names of them is declared in fused/detail/host_side.h.
HOST_SIDE = ["engine/cuda/check.h", "ndarray/iterate.h"]
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)
STANDARD = "sluice/operator/fused/detail/standard.h"


def literal(text):
    mark = "sluice"
    if f"){mark}\"" in text:
        sys.exit("embed.py: a header holds the mark that ends its literal")
    return f'R"{mark}({text}){mark}"'


def embedded(root):
    """{name of an #include: text} of all that a kernel may include."""
    all_of = {f"sluice/{name}": (root / name).read_text() for name in HEADERS}
    all_of |= {f"sluice/{name}": "#include <sluice/operator/fused/detail/host_side.h>\n" for name in HOST_SIDE}
    for name in sorted({target for text in all_of.values() for target in INCLUDE.findall(text)}):
        if name in all_of:
            continue
        if name.startswith("sluice/"):
            sys.exit(f"embed.py: <{name}> is included by an embedded header and not embedded itself")
        all_of[name] = f"#include <{STANDARD}>\n"
    return all_of


def main():
    if sys.argv[1:] == ["--list"]:
        return print("\n".join(HEADERS))
    root, output = sys.argv[1:]
    rows = [f'{{"{name}", {literal(text)}}},\n' for name, text in embedded(pathlib.Path(root)).items()]
    pathlib.Path(output).write_text("// Written by embed.py.\n" + "".join(rows))


if __name__ == "__main__":
    main()
