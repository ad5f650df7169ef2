#!/usr/bin/env python3
"""What tests/run says of times and sizes before its last line: check_figures.py ROOT."""
import pathlib
import re
import subprocess
import sys
import tempfile


def said(root, build, script):
    """The lines of stdout of `script` after what tests/run sources, with this build folder."""
    done = subprocess.run(
        ["bash", "-euc", f". '{root}/tests/support/prepare'; {script}"], capture_output=True, text=True, check=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "SLUICE_BUILD": str(build)})
    return done.stdout.splitlines()


def expect(what, lines, pattern):
    if len(lines) != (pattern is not None) or (lines and not re.fullmatch(pattern, lines[0])):
        sys.exit(f"{what}: wanted {pattern}, got {lines}")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    compute = f"'{sys.executable}' -c 'import time\nwhile time.process_time() < 1.2: pass'"
    busy = f"used=$(processor_seconds); {compute}; say_time built 0 $used; say_figures"
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        expect("nothing built or tested", said(root, build, "say_figures"), None)
        expect("no library", said(root, build, "say_time tested $SECONDS; say_figures"), r"tested in \d+ s")
        expect("a command that computes", said(root, build, busy), r"built in \d+ s \([1-9]\d* s of processors\)")
        for size, text in ((0, "0.0"), (99_999, "0.0"), (100_000, "0.1"), (24_105_968, "24.1"), (60_000_000, "60.0")):
            real = build / "libsluice.so.0"
            real.write_bytes(b"")
            with real.open("r+b") as file:
                file.truncate(size)
            link = build / "libsluice.so"
            link.unlink(missing_ok=True)
            link.symlink_to(real.name)
            expect(f"{size} bytes", said(root, build, "say_figures"), f"library of {re.escape(text)} MB")
        expect("code that nobody gets", said(root, build, "SLUICE_QUICK_GPU_CODE=1; say_figures"), None)
    print("figures: 9 lines")


if __name__ == "__main__":
    main()
