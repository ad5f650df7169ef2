"""What the checkers of samples share: running programs, small datasets, and the main.

A checker is called as `check_X.py [--device DEVICE] CHECK NAME=PROGRAM ...`, where CHECK is one of its functions
check_..., or "all". Exit code 77: what the check is about is not there.
"""
import gzip
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

PROGRAMS = {}
SETTINGS = {"device": "cpu"}


class Skipped(Exception):
    """What the check is about is not there."""


def run(name, *arguments, **options):
    return subprocess.run(
        [PROGRAMS[name], *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options)


def device():
    return SETTINGS["device"]


def train_command(name, folder, *arguments):
    return [str(part) for part in (PROGRAMS[name], "--data", folder, "--device", device(), *arguments)]


def train(name, folder, *arguments, **options):
    return run(name, *train_command(name, folder, *arguments)[1:], **options)


def expect(holds, what, result=None):
    if not holds:
        shown = f"\nexit {result.returncode}\n{result.stdout}\n{result.stderr}" if result is not None else ""
        raise AssertionError(what + shown)


def succeeds(result, what):
    expect(result.returncode == 0, what, result)
    return result


def idx(extents, values):
    return struct.pack(">HBB", 0, 8, len(extents)) + struct.pack(f">{len(extents)}I", *extents) + bytes(values)


def write_dataset(folder, train=512):
    """Ten classes: a bright bar at the height of the class."""
    for stem, count in (("train", train), ("t10k", 100)):
        labels = [(i * 7 + i // 10) % 10 for i in range(count)]
        pixels = bytearray()
        for i, label in enumerate(labels):
            for row in range(28):
                value = 220 if row // 2 - 2 == label else 10
                pixels += bytes(value + (i * 13 + row * 5 + column * 3) % 30 for column in range(28))
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx([count, 28, 28], pixels)))
        (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx([count], labels)))


def interrupted_run(command, at, send=signal.SIGINT, **options):
    """Runs until a line begins with `at`, then sends the signal. Returns (exit code, lines)."""
    prepare = options.pop("preexec_fn", lambda: None)

    def begin():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's is inherited
        prepare()

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=begin,
                          **options) as process:
        lines, sent = [], False
        for line in process.stdout:
            lines.append(line)
            if not sent and line.startswith(at):
                process.send_signal(send)
                sent = True
        return process.wait(timeout=120), lines


def main(checks):
    """`checks`: the functions check_... of a checker, by name (its globals())."""
    arguments = sys.argv[1:]
    if arguments[0] == "--device":
        SETTINGS["device"], arguments = arguments[1], arguments[2:]
    chosen, *programs = arguments
    PROGRAMS.update(argument.split("=", 1) for argument in programs)
    os.environ.pop("SLUICE_DATA", None)
    names = [name for name in checks if name.startswith("check_") and chosen in ("all", name)]
    expect(names, f"there is no check {chosen}")
    for name in names:
        try:
            with tempfile.TemporaryDirectory() as folder:
                checks[name](pathlib.Path(folder))
        except Skipped as reason:
            print("SKIPPED:", reason)
            if chosen != "all":
                sys.exit(77)
            continue
        print("passed:", name)
