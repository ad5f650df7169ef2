#!/usr/bin/env python3
"""Runs the node test cases of ONNX (PyPI's `onnx`) through Sluice.

onnx_nodes.py [--library libsluice.so] [--device cpu|gpu] [--only OPERATOR ..] [--all]

A case is a small graph; each node is a call of Sluice, views and conversions beside it (onnx_map). It passes within
the tolerance of ONNX's own runner. A case of which a node or an attribute has no counterpart counts as that, never as
passed: these are counted by operator and reason. Exit code 77: `onnx` is not here; tests/compare/install makes an
environment with it.
"""

import argparse
import collections
import pathlib
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
try:
    import numpy
    import onnx.backend.test.case.node
    import torch
except ImportError as error:
    print(f"there is no {error.name}; tests/compare/install makes an environment with it")
    print("\ntest cases: 0 passed, 0 failed, 1 skipped")
    sys.exit(SKIPPED)

import client  # noqa: E402
import onnx_map  # noqa: E402, F401
from onnx_call import OPERATORS, NoCounterpart, NodeCall, tensor_of  # noqa: E402

# Cases that fail on purpose.
DECIDED = {"test_attention_4d_causal_fp16_expanded": "operators on float16 in a row, of which sums are of float32 here"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=ROOT / "build" / "libsluice.so", help="the shared library")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="OPERATOR", help="cases with these operators of ONNX alone"
    )
    parser.add_argument("--all", action="store_true", help="each case, with what became of it")
    return parser.parse_args()


def run_graph(library, case, inputs):
    """The results of the case's graph."""
    graph = case.model.graph
    opset = max(entry.version for entry in case.model.opset_import)
    arrays = {"": None}
    for one in graph.initializer:
        arrays[one.name] = library.array(tensor_of(one))
    for declared, value in zip(graph.input, inputs):
        arrays[declared.name] = library.array(tensor_of(value)) if value is not None else None
    for node in graph.node:
        if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
            raise NoCounterpart("")
        call = NodeCall(library, node, [arrays[name] for name in node.input], opset)
        try:
            results = call.finish(OPERATORS[node.op_type](call))
        except NoCounterpart as lack:
            raise NoCounterpart(f"{node.op_type}: {lack}") from lack
        arrays.update(zip(node.output, results))
    return [arrays[output.name].tensor() for output in graph.output]


def as_numpy(tensor):
    return tensor.to(torch.float64).numpy() if tensor.dtype.is_floating_point else tensor.numpy()


def check(results, wanted, case):
    """What is wrong, as ONNX's runner judges; None if nothing is."""
    for i, (got, value) in enumerate(zip(results, wanted)):
        want = tensor_of(value)
        if got.dtype != want.dtype:
            return f"result {i} is {got.dtype}, not {want.dtype}"
        if got.shape != want.shape:
            return f"result {i} is of shape {tuple(got.shape)}, not {tuple(want.shape)}"
        # Two units in the last place of bfloat16.
        relative = max(case.rtol, 2**-6) if got.dtype == torch.bfloat16 else case.rtol
        try:
            numpy.testing.assert_allclose(as_numpy(got), as_numpy(want), rtol=relative, atol=case.atol)
        except AssertionError as error:
            return f"result {i}: {' '.join(str(error).split())[:200]}"
    return None


def run_case(library, case):
    """("passed" | "failed" | "none", what is said about it)."""
    unknown = sorted({node.op_type for node in case.model.graph.node if node.op_type not in OPERATORS})
    if unknown:
        return "none", unknown[0]
    try:
        for inputs, wanted in case.data_sets:
            tensors = [tensor_of(value) for value in wanted if value is not None]
            said = check(run_graph(library, case, inputs), wanted, case)
            if said is not None and tensors:
                return "failed", said
    except NoCounterpart as lack:
        return "none", str(lack)
    except client.SluiceError as error:
        return ("none" if error.kind == "unsupported" else "failed"), str(error).splitlines()[0][:250]
    return "passed", ""


def operators_of(case):
    return {node.op_type for node in case.model.graph.node}


def main():
    told = arguments()
    warnings.filterwarnings("ignore")
    library = client.Library(told.library, "gpu(0)" if told.device == "gpu" else "cpu")
    counts, lacking, passed = collections.Counter(), collections.Counter(), collections.Counter()
    for case in onnx.backend.test.case.node.collect_testcases(None):
        if told.only and not operators_of(case) & set(told.only):
            continue
        outcome, said = run_case(library, case)
        if outcome == "failed" and case.name in DECIDED:
            outcome, said = "none", f"decided: {DECIDED[case.name]}"
        counts[outcome] += 1
        if outcome == "failed" or told.all:
            print(f"{outcome} {case.name} ({', '.join(sorted(operators_of(case)))}): {said}")
        if outcome == "none":
            lacking[said] += 1
        if outcome == "passed" and len(operators_of(case)) == 1:
            passed[next(iter(operators_of(case)))] += 1
    print(
        f"{sum(counts.values())} cases of ONNX {onnx.__version__} on {told.device}: {counts['passed']} pass, "
        f"{counts['failed']} fail, {counts['none']} have no counterpart"
    )
    print("passed, of one node: " + ", ".join(f"{name} {n}" for name, n in sorted(passed.items())))
    print("no counterpart: " + "; ".join(f"{said} ({n})" for said, n in sorted(lacking.items())))
    print(f"\ntest cases: {counts['passed']} passed, {counts['failed']} failed, {counts['none']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
