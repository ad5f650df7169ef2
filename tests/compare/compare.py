#!/usr/bin/env python3
"""Compares Sluice with PyTorch: every operator of the registry, with the same random numbers.

compare.py [--library libsluice.so] [--device cpu|gpu] [--only NAME ..] [--part I/N] [--seed N] [--all]

Values, gradients and gradients of these, of all types, in several layouts, of shapes without elements, of special
values, for other attributes than the defaults. Lists what differs: operator, type, layout, call, error in units of the
last place, what is allowed. An operator of the registry that neither is compared nor has a reason why not is a failure.
Exit code 77: PyTorch is not here; tests/compare/install makes an environment that has it.
"""

import argparse
import collections
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SHOWN = 6  # lines of an operator, unless --all
try:
    import torch
except ImportError:
    print("there is no PyTorch; tests/compare/install makes an environment with it")
    print("\ntest cases: 0 passed, 0 failed, 1 skipped")
    sys.exit(SKIPPED)

import cases  # noqa: E402, F401
import client  # noqa: E402
import decided  # noqa: E402
import running  # noqa: E402
import table  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=ROOT / "build" / "libsluice.so", help="the shared library")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"), help="where both calculate")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these operators alone")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts of the operators")
    parser.add_argument("--all", action="store_true", help="every difference, the decided ones too")
    return parser.parse_args()


def own_operators(registry):
    """The operators that gradients and passes over graphs are made of: they are compared where these run."""
    names, own = set(), False
    for line in (ROOT / "docs" / "operator_names.txt").read_text().splitlines():
        own = "library's own" in line if line.startswith("[") else own
        if own and line and not line.startswith(("[", "#")):
            names.add(line.split("|")[0].strip())
    return {name for name in registry if name in names or "_backward" in name}


def missing_entries(registry):
    """Faults of the table: operators without an entry, entries without an operator."""
    own = own_operators(registry)
    known = set(table.CALLS) | set(table.REASONS)
    faults = [
        f"{name}: no entry in tests/compare/cases, nor a reason why not" for name in sorted(set(registry) - known - own)
    ]
    return faults + [f"{name}: there is no such operator" for name in sorted(known - set(registry))]


def run_operator(comparison, name):
    """The differences that count, and those that are decided."""
    before = len(comparison.differences)
    for call in table.CALLS[name]:
        comparison.run(name, call)
    counted, expected = [], []
    for difference in comparison.differences[before:]:
        decision = decided.decision_on(difference)
        (counted if decision is None else expected).append(difference)
    return counted, expected


def show(differences, everything):
    for difference in differences if everything else differences[:SHOWN]:
        print("  " + difference.line())
    if len(differences) > SHOWN and not everything:
        print(f"  .. and {len(differences) - SHOWN} more (--all)")


def compare_all(comparison, names, everything):
    """Names of operators that differ."""
    failed, expected_count = [], 0
    for name in names:
        counted, expected = run_operator(comparison, name)
        expected_count += len(expected)
        if counted:
            failed.append(name)
            layouts = collections.Counter(difference.layout for difference in counted)
            print(f"{name}: {len(counted)} differences ({', '.join(f'{n} {layout}' for layout, n in layouts.items())})")
            show(counted, everything)
        if expected and everything:
            print(f"{name}: decided")
            show(expected, True)
    print(
        f"{comparison.compared} comparisons, {len(comparison.differences) - expected_count} differences, "
        f"{expected_count} decided ones:"
    )
    for decision in decided.DECISIONS:
        if decision.met:
            print(f"  {decision.met:5} {decision.ops}: {decision.reason}")
    for line in sorted(comparison.without_second):
        print(f"  no gradient of the gradient: {line}")
    return failed


def main():
    told = arguments()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if told.device == "gpu":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    start = time.monotonic()
    library = client.Library(told.library, "gpu(0)" if told.device == "gpu" else "cpu")
    registry = library.operators()
    faults = [] if told.only else missing_entries(registry)
    for fault in faults:
        print(fault)
    names = [name for name in table.CALLS if name in registry and (not told.only or name in told.only)]
    part, parts = map(int, told.part.split("/"))
    names = names[part - 1 :: parts]
    comparison = running.Comparison(library, told.seed, "cuda" if told.device == "gpu" else "cpu")
    print(f"Sluice and PyTorch {torch.__version__} on {told.device}, {len(names)} operators, seed {told.seed}")
    failed = compare_all(comparison, names, told.all)
    skipped = 0 if told.only or part != parts else len(table.REASONS)
    print(
        f"{len(own_operators(registry))} operators of gradients and passes are compared through the others; "
        f"{time.monotonic() - start:.0f} s"
    )
    print(f"\ntest cases: {len(names) - len(failed)} passed, {len(failed) + len(faults)} failed, {skipped} skipped")
    return 1 if failed or faults or not names else 0


if __name__ == "__main__":
    sys.exit(main())
