#!/usr/bin/env python3
"""Counts the instructions of an eager call: count_eager.py BENCH_EAGER [--print], with valgrind's callgrind.

Two runs of different length on the serial engine, where the pushing thread does everything; what a longer run executes
more is its operations. Unlike a time, the count does not depend on what else the machine does. Fails above a bound.
--print: says the counts and compares nothing (other compilers, other options). Ends with 77 without valgrind.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STEPS = (500, 1500)
# Row of bench_eager: (measured with gcc 12, -O3, x86-64; bound, some 8 % above). RESULTS.md has the history.
BOUNDS = {
    "add": (2469, 2500),
    "add-recorded": (3331, 3590),
    "add-scalar": (2730, 2950),
    "add-row": (4579, 4940),
    "sum": (3599, 3880),
}


def start(benchmark, row, steps, folder):
    log = pathlib.Path(folder) / f"{row}.{steps}.log"
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}", str(benchmark),
               "--filter", f"{row} serial", "--repeats", "1", "--steps", str(steps)]
    return log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def instructions(log, process):
    output, _ = process.communicate(timeout=300)
    found = re.search(r"Collected : (\d+)", log.read_text() if log.exists() else "")
    if process.returncode != 0 or found is None:
        sys.exit(f"{' '.join(process.args)}: exit code {process.returncode}\n{output}")
    return int(found.group(1))


def count(benchmark, row, folder):
    """Instructions an operation."""
    short, long = [start(benchmark, row, steps, folder) for steps in STEPS]  # at the same time
    shorter = instructions(*short)
    return round((instructions(*long) - shorter) / (STEPS[1] - STEPS[0]))


def main():
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        sys.exit(77)
    over = []
    with tempfile.TemporaryDirectory() as folder:
        for row, (measured, bound) in BOUNDS.items():
            counted = count(sys.argv[1], row, folder)
            print(f"{row:14} {counted:6} instructions an operation; measured {measured}, bound {bound}")
            if counted <= 100:
                sys.exit(f"{row}: {counted} is no operation: the benchmark did not run")
            if counted > bound:
                over.append(row)
    if over and "--print" not in sys.argv:
        sys.exit(f"more than the bound: {', '.join(over)}. If it has to be, say why in RESULTS.md and raise the bound.")


if __name__ == "__main__":
    main()
