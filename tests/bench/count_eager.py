#!/usr/bin/env python3
"""Counts the instructions of an eager call: count_eager.py BENCH_EAGER [--print], with valgrind's callgrind.

Two runs of different length on the serial engine, where the pushing thread does everything; what a longer run executes
more is its operations. Unlike a time, the count does not depend on what else the machine does. Fails above a bound, and
where an operation asks for memory of the heap, a mutex or a thread-local's address at all.
--print: says the counts and compares nothing (other compilers, other options). Ends with 77 without valgrind.
"""
import collections
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
# What no operation calls once all is warm.
DEAR = ("malloc", "pthread_mutex_lock", "__tls_get_addr")


def start(benchmark, row, steps, folder):
    log = pathlib.Path(folder) / f"{row}.{steps}.log"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={log.with_suffix('.calls')}", f"--log-file={log}",
               str(benchmark), "--filter", f"{row} serial", "--repeats", "1", "--steps", str(steps)]
    return log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def dear_calls(profile):
    """How often each of DEAR was called, of a profile of callgrind's: names stand there once, then as numbers."""
    names, calls, called = {}, collections.Counter(), None
    for line in profile.splitlines():
        if named := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            if named.group(3):
                names[named.group(2)] = named.group(3).split("@")[0]
            called = named.group(2) if named.group(1) else called
        elif line.startswith("calls="):
            calls[names.get(called)] += int(line[6:].split()[0])
    if not calls:
        sys.exit("callgrind's profile says nothing of calls")
    return {name: calls[name] for name in DEAR}


def finished(log, process):
    """Instructions, and calls of DEAR."""
    output, _ = process.communicate(timeout=300)
    found = re.search(r"Collected : (\d+)", log.read_text() if log.exists() else "")
    if process.returncode != 0 or found is None:
        sys.exit(f"{' '.join(process.args)}: exit code {process.returncode}\n{output}")
    return int(found.group(1)), dear_calls(log.with_suffix(".calls").read_text())


def count(benchmark, row, folder):
    """Instructions an operation, and what of DEAR the longer run calls more often."""
    short, long = [start(benchmark, row, steps, folder) for steps in STEPS]  # at the same time
    (fewer, before), (more, after) = finished(*short), finished(*long)
    if before["malloc"] == 0:
        sys.exit("a run that never asks for memory: names in callgrind's profile are read wrongly")
    few = (STEPS[1] - STEPS[0]) // 100  # of threads that do something else
    extra = {name: after[name] - before[name] for name in DEAR if after[name] - before[name] > few}
    return round((more - fewer) / (STEPS[1] - STEPS[0])), extra


def main():
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        sys.exit(77)
    over, dear = [], []
    with tempfile.TemporaryDirectory() as folder:
        for row, (measured, bound) in BOUNDS.items():
            counted, extra = count(sys.argv[1], row, folder)
            print(f"{row:14} {counted:6} instructions an operation; measured {measured}, bound {bound}")
            dear += [f"{row}: {calls} more calls of {name} in {STEPS[1] - STEPS[0]} operations"
                     for name, calls in extra.items()]
            if counted <= 100:
                sys.exit(f"{row}: {counted} is no operation: the benchmark did not run")
            if counted > bound:
                over.append(row)
    if dear:
        sys.exit("; ".join(dear))
    if over and "--print" not in sys.argv:
        sys.exit(f"more than the bound: {', '.join(over)}. If it has to be, say why in RESULTS.md and raise the bound.")


if __name__ == "__main__":
    main()
