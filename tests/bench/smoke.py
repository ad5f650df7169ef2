#!/usr/bin/env python3
"""Runs a benchmark in tiny sizes and checks what it says: smoke.py BENCHMARK.

It must end well (it checks its own results, and may leave tasks running when main returns), print `workload variant
metric value unit` lines and nothing else, write the same lines as JSON, and refuse flags and devices that are not there.
One that needs a GPU ends with 77 where there is none, and says so; then it is only seen to refuse.
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def say(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900)


def printed(text):
    lines = [line.split() for line in text.splitlines()]
    wrong = [line for line in lines if len(line) != 5]
    if wrong or not lines:
        sys.exit(f"not a measurement: {wrong or 'no line at all'}")
    return [(w, v, m, float(value), unit) for w, v, m, value, unit in lines]


def check_measurements(benchmark, folder):
    """The exit code of a smoke run, whose lines are right if it is 0."""
    file = pathlib.Path(folder) / "out.json"
    run = say(benchmark, "--smoke", "--json", file)
    print(run.stdout + run.stderr)
    if run.returncode == 77 and not run.stdout and "skipped" in run.stderr:
        return 77
    if run.returncode != 0:
        sys.exit(f"exit code {run.returncode}")
    measured = json.loads(file.read_text())["measurements"]
    written = [(m["workload"], m["variant"], m["metric"], m["value"], m["unit"]) for m in measured]
    for line, entry in zip(printed(run.stdout), written, strict=True):
        if line[:3] != entry[:3] or line[4] != entry[4] or abs(line[3] - entry[3]) > 1e-4 + 1e-4 * abs(entry[3]):
            sys.exit(f"printed {line}, wrote {entry}")
    return 0


def main():
    benchmark = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        code = check_measurements(benchmark, folder)
    for flags in (["--no-such-flag"], ["--device", "toaster"], ["--device", "gpu:99"], ["--repeats", "0"]):
        refused = say(benchmark, *flags)
        if refused.returncode in (0, 77) or not refused.stderr + refused.stdout:
            sys.exit(f"{flags} was not refused")
    sys.exit(code)


if __name__ == "__main__":
    main()
