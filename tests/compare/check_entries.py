#!/usr/bin/env python3
"""Checks, without PyTorch, that tests/compare names every operator of docs/operator_names.txt, to compare it or to say
why not: check_entries.py ROOT. `--self-test` shows that it misses what is not there."""

import pathlib
import re
import sys


def public_operators(text):
    """Names outside the library's own section."""
    names, own = [], False
    for line in text.splitlines():
        own = "library's own" in line if line.startswith("[") else own
        if line and not own and not line.startswith(("[", "#")):
            names.append(line.split("|")[0].strip())
    return names


def missing(names, cases):
    """Those that stand in no string of the cases."""
    said = set(re.findall(r'"([a-z0-9_]+)"', cases))
    return [name for name in names if name not in said]


def self_test():
    text = "[Sums]\n# a word\nsum | = | = | =\nmean | - | - | -\n[The library's own]\nfused\n"
    assert public_operators(text) == ["sum", "mean"]
    assert missing(public_operators(text), 'compare("sum", Call())') == ["mean"]
    print("it finds what is missing")


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1])
    cases = "\n".join(path.read_text() for path in sorted((root / "tests/compare/cases").glob("*.py")))
    names = public_operators((root / "docs/operator_names.txt").read_text())
    lacking = missing(names, cases)
    for name in lacking:
        print(f"docs/operator_names.txt: {name} has no entry in tests/compare/cases, nor a reason in without.py")
    print(f"{len(names)} operators, {len(lacking)} without an entry")
    return 1 if lacking or not names else 0


if __name__ == "__main__":
    sys.exit(main())
