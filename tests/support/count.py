#!/usr/bin/env python3
"""Sums what Meson's test logs say: count.py LOG_FOLDER MESON_STATUS.

Prints `N passed, N failed, N skipped` alone on the last line, and before it what failed: of a long log one may only see
the end. An executable of tests/support/main.cpp counts its test cases; any other test counts as one. A test executable
that ends without its line has crashed: one failure. Exits with 0 if something passed and nothing failed.
"""
import json
import pathlib
import re
import sys

COUNT = re.compile(r"^test cases: (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
CASE = re.compile(r"^FAILED: (.*)$", re.MULTILINE)
MOST_LINES = 10
GOOD = ("OK", "EXPECTEDFAIL")


def count(entry):
    """(passed, failed, skipped) of one line of testlog.json."""
    result = entry.get("result", "ERROR")
    good, skipped = result in GOOD, result == "SKIP"
    lines = COUNT.findall(entry.get("stdout") or "")
    if lines:
        cases = [int(n) for n in lines[-1]]
        if not good and not skipped and cases[1] == 0:
            cases[1] = 1  # failed after its last test: a leak, a sanitizer's finding
        return tuple(cases)
    command = entry.get("command") or [""]
    counts_cases = any(pathlib.Path(word).name.startswith("test_") for word in command if not word.endswith(".py"))
    if skipped:
        return 0, 0, 1
    return (1, 0, 0) if good and not counts_cases else (0, 1, 0)


def reasons(entry):
    """What a failed test said of it: its failed assertions, else its last words."""
    lines = CASE.findall(entry.get("stdout") or "")
    if not lines:
        said = (entry.get("stdout") or "") + (entry.get("stderr") or "")
        lines = [line for line in said.splitlines() if line.strip()][-MOST_LINES:]
    return ["  " + line for line in lines[:MOST_LINES]]


def entries(folder):
    for log in sorted(pathlib.Path(folder).glob("testlog*.json")):
        for line in log.read_text(errors="replace").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                yield {"name": "unreadable line of " + log.name}


def main():
    totals, failures = [0, 0, 0], []
    for entry in entries(sys.argv[1]):
        numbers = count(entry)
        totals = [a + b for a, b in zip(totals, numbers)]
        if numbers[1] > 0:
            failures.append(f"FAILED: {entry.get('name')} ({numbers[1]})")
            failures += reasons(entry)
    if int(sys.argv[2]) != 0 and not failures:
        failures.append(f"FAILED: meson test ended with status {sys.argv[2]}")
        totals[1] += 1
    print("\n".join(failures + ["{} passed, {} failed, {} skipped".format(*totals)]))
    return 0 if totals[1] == 0 and totals[0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
