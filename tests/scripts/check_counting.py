#!/usr/bin/env python3
"""tests/run's last line, from made-up logs: check_counting.py ROOT."""
import json
import pathlib
import subprocess
import sys
import tempfile

CASES = "test cases: {} passed, {} failed, {} skipped\n"


def entry(result, stdout="", command="test_x"):
    return {"name": command, "result": result, "stdout": stdout, "command": [f"build/{command}"]}


# (what it is, entries of the log, Meson's status, last line, exit code)
TABLE = [
    ("two executables and a script",
     [entry("OK", CASES.format(3, 0, 1)), entry("OK", "noise\n" + CASES.format(2, 0, 0)), entry("OK", "", "check.py")], 0,
     "6 passed, 0 failed, 1 skipped", 0),
    ("a failed case", [entry("FAIL", CASES.format(3, 2, 0))], 1, "3 passed, 2 failed, 0 skipped", 1),
    ("a crash before the count", [entry("FAIL", "half a li"), entry("OK", CASES.format(1, 0, 0))], 1,
     "1 passed, 1 failed, 0 skipped", 1),
    ("an executable that left early with 0", [entry("OK", "")], 0, "0 passed, 1 failed, 0 skipped", 1),
    ("a leak found after the count", [entry("FAIL", CASES.format(4, 0, 0))], 1, "4 passed, 1 failed, 0 skipped", 1),
    ("a time-out", [entry("TIMEOUT", "")], 1, "0 passed, 1 failed, 0 skipped", 1),
    ("all skipped", [entry("SKIP", CASES.format(0, 0, 5)), entry("SKIP", "", "check.py")], 0,
     "0 passed, 0 failed, 6 skipped", 1),
    ("nothing ran", [], 0, "0 passed, 0 failed, 0 skipped", 1),
    ("Meson failed by itself", [entry("OK", CASES.format(1, 0, 0))], 1, "1 passed, 1 failed, 0 skipped", 1),
    ("a broken line", ["{nonsense"], 0, "0 passed, 1 failed, 0 skipped", 1),
]


SAYS = [  # (what a failed test printed, lines that are told again)
    ("noise\nFAILED: a case: x.cpp:3: 1 == 2\n" + CASES.format(3, 1, 0), ["  a case: x.cpp:3: 1 == 2"]),
    ("".join(f"FAILED: case {n}\n" for n in range(99)) + CASES.format(3, 99, 0), [f"  case {n}" for n in range(10)]),
    ("first\n\nlast words", ["  first", "  last words"]),
]


def answer(counter, entries, status):
    with tempfile.TemporaryDirectory() as folder:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in entries]
        (pathlib.Path(folder) / "testlog.json").write_text("".join(line + "\n" for line in lines))
        return subprocess.run([sys.executable, str(counter), folder, str(status)], capture_output=True, text=True)


def main():
    counter = pathlib.Path(sys.argv[1]) / "tests" / "support" / "count.py"
    for what, entries, status, last, code in TABLE:
        done = answer(counter, entries, status)
        if done.stdout.splitlines()[-1] != last or done.returncode != code:
            sys.exit(f"{what}: wanted '{last}' and {code}, got {done.returncode} and\n{done.stdout}{done.stderr}")
    for stdout, told in SAYS:
        done = answer(counter, [entry("FAIL", stdout)], 1)
        if done.stdout.splitlines()[1:-1] != told:
            sys.exit(f"wanted {told} to be told again, got\n{done.stdout}{done.stderr}")
    print(f"counting: {len(TABLE) + len(SAYS)} logs")


if __name__ == "__main__":
    main()
