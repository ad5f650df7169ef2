#!/usr/bin/env python3
"""Builds that fail with precompiled headers are tried again without, others are not: check_retry.py ROOT."""
import pathlib
import subprocess
import sys
import tempfile

# In place of ninja: says that there is work, and fails as often as the file says. In place of meson: writes down its call.
NINJA = """#!/bin/bash
[[ " $* " == *" -n "* ]] && exit 0
left=$(cat "$STANDS/fails")
echo "ninja" >>"$STANDS/calls"
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) >"$STANDS/fails"
exit 1
"""
MESON = """#!/bin/bash
echo "meson $*" >>"$STANDS/calls"
"""


def compiled(root, folder, fails, precompiled):
    """Whether `compile` of tests/support/prepare succeeds, and what it calls, where ninja fails so often."""
    stands, build = folder / "stands", folder / "build"
    for made in (stands, build):
        made.mkdir(exist_ok=True)
    for name, text in (("ninja", NINJA), ("meson", MESON)):
        (stands / name).write_text(text)
        (stands / name).chmod(0o755)
    (stands / "fails").write_text(str(fails))
    (stands / "calls").write_text("")
    env = {"PATH": f"{stands}:/usr/local/bin:/usr/bin:/bin", "SLUICE_BUILD": str(build), "STANDS": str(stands)}
    if precompiled:
        env["SLUICE_PCH"] = "1"
    done = subprocess.run(
        ["bash", "-euc", f". '{root}/tests/support/prepare'; compile some"], capture_output=True, text=True, env=env)
    calls = (stands / "calls").read_text().replace(str(build), "BUILD").splitlines()
    return done.returncode == 0, calls


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    again = "meson configure BUILD -Dprecompile=false"
    cases = (
        (0, True, (True, ["ninja"])),
        (0, False, (True, ["ninja"])),
        (1, True, (True, ["ninja", again, "ninja"])),
        (1, False, (False, ["ninja"])),
        (2, True, (False, ["ninja", again, "ninja"])),
    )
    for fails, precompiled, wanted in cases:
        with tempfile.TemporaryDirectory() as folder:
            got = compiled(root, pathlib.Path(folder), fails, precompiled)
        if got != wanted:
            sys.exit(f"{fails} failures, precompiled headers {precompiled}: wanted {wanted}, got {got}")
    print(f"retries: {len(cases)} builds")


if __name__ == "__main__":
    main()
