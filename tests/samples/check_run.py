#!/usr/bin/env python3
"""samples/run without a sample's name: lists the samples of the source tree, and neither installs nor configures. The
other scripts say with --help how they are called, and do no more.

Usage: check_run.py ROOT
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


HELPED = ("tests/run", "tests/sanitize", "tests/bundle")


def copy_tree(root, to):
    """What the script may need, with a bootstrap that leaves a mark when it is called."""
    for part in ("samples", "tests/support"):
        shutil.copytree(root / part, to / part, dirs_exist_ok=True)
    for script in HELPED:
        shutil.copy(root / script, to / script)
    (to / "bootstrap").write_text(f"#!/bin/sh\ntouch {to}/installed\nexit 3\n")
    (to / "bootstrap").chmod(0o755)


def run(tree, *arguments):
    environment = {**os.environ, "SLUICE_BUILD": str(tree / "build")}
    return subprocess.run([tree / "samples/run", *arguments], capture_output=True, text=True, env=environment, check=False)


def check(root):
    samples = {path.stem if path.parent.name in ("samples", "tutorial") else path.parent.name
               for path in root.glob("samples/**/*.cpp") if re.search(r"^int main", path.read_text(), re.MULTILINE)}
    assert "mlp" in samples and "stress" in samples, samples
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(root, tree)
        for arguments, code in ((["--help"], 0), (["-h"], 0), ([], 2), (["no-such-sample"], 2), (["--device", "cpu"], 2)):
            result = run(tree, *arguments)
            text = result.stdout if code == 0 else result.stderr
            assert result.returncode == code, (arguments, result)
            listed = dict(re.findall(r"^  (\w+) +(\S.*\.)$", text, re.MULTILINE))
            assert set(listed) == samples, (arguments, listed, samples)
            assert all(len(line) > 20 for line in listed.values()), listed
            assert not (tree / "installed").exists() and not (tree / "build").exists(), f"{arguments} prepares a build"
            assert (code == 0) == (result.stderr == ""), (arguments, result)
        for script in HELPED:
            result = subprocess.run([tree / script, "--help"], capture_output=True, text=True, check=False)
            assert result.returncode == 0 and f"Usage: {script}" in result.stdout, (script, result)
            assert not (tree / "installed").exists(), f"{script} --help prepares a build"
        assert "no sample 'no-such-sample'" in run(tree, "no-such-sample").stderr
        assert run(tree, "mlp").returncode == 3 and (tree / "installed").exists(), "a sample's name does prepare one"


check(pathlib.Path(sys.argv[1]))
print("passed")
