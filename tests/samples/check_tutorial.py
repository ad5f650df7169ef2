#!/usr/bin/env python3
"""samples/README.md: it has every program of the tutorial, in order, and each prints on a CPU what stands there. See harness.py."""
import os
import pathlib
import re

import harness
from harness import PROGRAMS, expect, run, succeeds

SAMPLES = pathlib.Path(__file__).parents[2] / "samples"
STEP = re.compile(r"^## (\d\d)\. .*?\[(\S+)\]\(tutorial/(\S+)\)$.*?^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MOST_LINES = 60


def check_readme(folder):
    steps = STEP.findall((SAMPLES / "README.md").read_text())
    names = [path.stem for path in sorted(SAMPLES.glob("tutorial/*.cpp"))]
    expect(names and [pathlib.Path(file).stem for _, _, file, _ in steps] == names, f"README has {steps}, the folder {names}")
    for number, shown, file, output in steps:
        name = pathlib.Path(file).stem
        expect(shown == file and name.startswith(number + "_"), f"{number}: {shown} is shown, {file} linked")
        lines = len((SAMPLES / "tutorial" / file).read_text().splitlines())
        expect(lines < MOST_LINES, f"{file} has {lines} lines")
        expect(name in PROGRAMS, f"{name} was not built")
        result = run(name, cwd=folder, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        succeeds(result, name)
        printed = re.sub(r"\S*/(\w+\.cpp:\d)", r"\1", result.stdout)  # where the build has its sources
        expect(printed == output and result.stderr == "", f"{name} prints otherwise than README:\n{output}", result)


if __name__ == "__main__":
    harness.main(globals())
