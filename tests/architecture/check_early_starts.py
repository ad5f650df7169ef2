#!/usr/bin/env python3
"""A kernel that calls start_early() does so first, before it may touch memory; every launch of one is followed by
check_early_launch() or note_early_launch(), no launch of another kernel is. (ndarray/early_start.cuh)
"""
import re

import checker

# What these do before looks at nothing but the kernel's parameters, and begins at most to bring memory nearer.
LATER = {
    "operator/update/update_cuda.cu": "update_kernel",
    "operator/conv/tensor_tiles.cuh": "convolve_tiles_kernel",
    "operator/conv/box_tiles.cuh": "convolve_boxes_kernel",
    "operator/conv/first_layer_cuda.cu": "first_forward_kernel",
    "operator/conv/first_layer_weights_cuda.cu": "first_weights_kernel",
    "operator/matmul/row_product_cuda.cu": "row_product_kernel",
}
NOTES = re.compile(r"\b(?:check|note)_early_launch\s*\(")
CHECKS = re.compile(r"\b(?:(?:check|note)_early_launch|check_launch|cudaGetLastError)\s*\(")


def kernels(code):
    """(name, position, first statement, whole body) of each __global__ function."""
    for match in re.finditer(r"\b__global__\b", code):
        position, depth = match.end(), 0
        while position < len(code) and not (code[position] in "{;" and depth == 0):
            depth += {"(": 1, ")": -1}.get(code[position], 0)
            position += 1
        if code[position:position + 1] != "{":
            continue
        names = re.findall(r"(\w+)\s*\((?!\()", code[match.end():position])
        name = next((each for each in names if each != "__launch_bounds__"), "?")
        end, depth = position, 0
        for end in range(position, len(code)):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            if depth == 0:
                break
        body = code[position + 1:end]
        yield name, match.start(), body.split(";")[0].strip(), body


def launches(code):
    """(kernel, position, whether the first check behind it is one of an early launch; where there is none behind it,
    whether all are)."""
    checks = list(CHECKS.finditer(code))
    for match in re.finditer(r"<<<", code):
        name = re.search(r"(\w+)\s*(?:<[^;{}]*>)?\s*$", code[:match.start()])
        after = next(([each] for each in checks if each.start() > match.end()), checks)
        yield name and name.group(1), match.start(), bool(after) and all(NOTES.match(each.group()) for each in after)


def check(root):
    found, early, all_launches = [], {}, []
    for name in checker.files(root, {".cu", ".cuh"}):
        if name.split("/")[0] not in checker.ROOMS:
            continue
        code = checker.code_only(checker.read(root, name))
        at = lambda position: f"{name}:{code.count(chr(10), 0, position) + 1}"
        for kernel, position, first, body in kernels(code):
            early[kernel] = early.get(kernel, False) or "start_early()" in body
            if "start_early()" in body and first != "start_early()" and LATER.get(name) != kernel:
                found.append(f"{at(position)}: {kernel} does something before start_early()")
        all_launches += [(kernel, at(position), noted) for kernel, position, noted in launches(code)]
    for kernel, where, noted in all_launches:
        if kernel in early and early[kernel] != noted:
            found.append(f"{where}: the launch of {kernel}, which {'starts' if early[kernel] else 'does not start'} early, "
                         f"is {'' if noted else 'not '}noted as early")
    return found


HEAD = "__global__ void __launch_bounds__(256) a(int* x) {\n"
GOOD = HEAD + "  start_early();\n  *x = 1;\n}\nvoid f() {\n  a<<<1, 1, 0, s>>>(x);\n  check_early_launch(\"a\", s);\n}\n"
PLAIN = "template <int V>\n__global__ void b(int* x) {\n  *x = 1;\n}\nvoid f() {\n  b<1><<<1, 1, 0, s>>>(x);\n  check_launch(\"b\");\n}\n"
CLEAN = {"operator/a.cu": GOOD, "operator/b.cu": PLAIN, "tests/c.cu": HEAD + "  *x = 1;\n  start_early();\n}\n"}
PLANTS = [
    ("memory before the wait", {"operator/a.cu": GOOD.replace("  start_early();\n  *x = 1;", "  *x = 1;\n  start_early();")}, "a.cu:1"),
    ("a way around the wait", {"operator/a.cu": GOOD.replace("  start_early();", "  if (x == nullptr)\n    return;\n  start_early();")}, "a.cu:1"),
    ("no note", {"operator/a.cu": GOOD.replace("check_early_launch(\"a\", s)", "check_launch(\"a\")")}, "a.cu:6"),
    ("a note of one that does not wait", {"operator/b.cu": PLAIN.replace("check_launch(\"b\")", "check_early_launch(\"b\", s)")}, "b.cu:6"),
    ("the second of two launches", {"operator/a.cu": GOOD.replace("}\nvoid", "}\nvoid g() {\n  a<<<1, 1, 0, s>>>(x);\n  cuda_check(cudaGetLastError());\n}\nvoid")}, "a.cu:6"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
