#!/usr/bin/env python3
"""What the samples look like on terminals of any width: no line is wider than the window. See harness.py."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import PROGRAMS, expect, write_dataset

ESCAPE = re.compile(rb"\033\[[0-9;]*[A-Za-z]")


def set_size(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Shown:
    """What a program writes on a terminal of its own."""

    def __init__(self, command, columns, environment=None):
        self.output = b""
        try:
            child, self.terminal = pty.fork()
        except OSError as error:  # a bare root without devpts
            raise harness.Skipped(f"no terminal can be had here: {error}") from error
        if child == 0:
            if columns:
                set_size(0, columns)  # before the program looks
            os.execve(command[0], command, {**os.environ, **(environment or {})})
        self.child = child

    def read(self, until=None, seconds=120):
        """Reads to the end, or until `until` was written since the call."""
        start, end = len(self.output), time.monotonic() + seconds
        while time.monotonic() < end:
            if until is not None and until in self.output[start:]:
                return True
            if not select.select([self.terminal], [], [], 1)[0]:
                continue
            try:
                piece = os.read(self.terminal, 4096)
            except OSError:
                break  # the child closed its end
            if not piece:
                break
            self.output += piece
        expect(until is None, f"waited for {until}: {self.output[-500:]}")
        return False

    def finish(self):
        self.read()
        _, status = os.waitpid(self.child, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


def widest(output):
    """The longest line, or redrawing of one, in columns."""
    pieces = re.split(rb"[\r\n]+", ESCAPE.sub(b"", output))
    return max(pieces, key=len)


def command(folder, *arguments, epochs=2):
    return harness.train_command("cnn", folder, "--epochs", epochs, "--batch-size", 8, *arguments)


def check_widths(folder):
    write_dataset(folder)
    for columns, wanted in ((20, ()), (40, (b"loss", b"accuracy")), (80, (b"[=", b"loss", b"accuracy", b"left")),
                            (200, (b"[=", b"images/s", b"/64"))):
        shown = Shown(command(folder), columns)
        expect(shown.finish() == 0, f"a run on {columns} columns: {shown.output[-500:]}")
        line = widest(shown.output)
        expect(len(line) <= columns, f"a line of {len(line)} columns on a terminal of {columns}: {line}")
        bars = [piece for piece in shown.output.split(b"\r") if piece.endswith(b"\033[K") and len(piece) > 3]
        expect(bars, f"a line that is redrawn, {columns} columns: {shown.output}")
        for part in wanted:
            expect(any(part in bar for bar in bars), f"{part} at {columns} columns: {bars[-1]}")
        expect(b"test accuracy:" in b" ".join(shown.output.split()), f"the end: {shown.output[-300:]}")


def check_resize(folder):
    """A window made narrower while the program runs: what is drawn from then on fits it."""
    write_dataset(folder)
    shown = Shown(command(folder, epochs=100000), 200)
    shown.read(until=b"images/s")
    set_size(shown.terminal, 40)
    before = len(shown.output)
    shown.read(until=b"\r")  # drawn while the size changed, perhaps
    shown.read(until=b"\r")
    after = len(shown.output)
    shown.read(until=b"epoch")
    shown.read(until=b"\033[K")
    os.kill(shown.child, signal.SIGINT)
    expect(shown.finish() == 130, "Ctrl-C on a terminal")
    expect(len(widest(shown.output[:before])) > 80, "the wide window was used")
    line = widest(shown.output[after:])
    expect(len(line) <= 40, f"a line of {len(line)} columns on 40: {line}")


def check_columns(folder):
    """A terminal that does not know its width: COLUMNS tells, or else it is 80."""
    write_dataset(folder)
    for environment, columns in (({"COLUMNS": "50"}, 50), ({"COLUMNS": ""}, 80)):
        shown = Shown(command(folder), None, environment)
        expect(shown.finish() == 0, "a run without a size")
        width = len(widest(shown.output))
        expect(columns - 30 < width <= columns, f"{width} columns used of {columns}")


def check_plain(folder):
    """Off a terminal: lines, as often as --log-every says, without escapes."""
    write_dataset(folder)
    result = subprocess.run(command(folder, "--log-every", 0), capture_output=True, text=True, timeout=300, check=False)
    steps = re.findall(r"^epoch 1/2  step (\d+)/64  loss .* images/s  \d+:\d\d elapsed(?:  \d+:\d\d left)?$", result.stdout,
                       re.MULTILINE)
    expect(steps == [str(i) for i in range(1, 65)], "a line a step", result)
    lines = [line for line in result.stdout.split("\n") if "  step " in line]
    expect("loss -  accuracy -  - images/s" in lines[0], f"nothing was measured yet: {lines[0]}")
    expect(re.search(r"loss \d\.\d{4}  accuracy \d\.\d{4}  \d+ images/s", lines[-1]), f"then it was: {lines[-1]}")
    expect(not any("loss 0.0000" in line for line in lines), "no loss is made up", result)
    expect("\033" not in result.stdout and "\r" not in result.stdout, "plain lines when not on a terminal", result)
    result = subprocess.run(command(folder), capture_output=True, text=True, timeout=300, check=False)
    expect(len(result.stdout.split("\n")) < 40, "few lines otherwise", result)


def check_error(folder):
    """An error in the midst of an epoch begins a line of its own; the figures so far stand above it."""
    write_dataset(folder, train=4000)
    shown = Shown(harness.train_command("cnn", folder, "--batch-size", 100, "--threads", 1, "--lr", 30), 200)
    expect(shown.finish() == 1, f"training diverges: {shown.output[-500:]}")
    text = shown.output
    expect(b"\033[K" in text and re.search(rb"\r\033\[Kepoch [^\r\n]*step [^\r\n]*\r\n[^\r\n]*cnn: step \d+: training diverges", text),
           f"the line is gone: {text[-800:]}")


def check_long_error(folder):
    """Errors are folded at words, like all lines."""
    shown = Shown(harness.train_command("mlp", folder / "nowhere"), 60)
    expect(shown.finish() == 1, "no data")
    line = widest(shown.output)
    expect(len(line) <= 60 and b"dataset-fashion-mnist" in shown.output, f"a line of {len(line)} columns: {shown.output}")


def check_stress(_):
    stress = [str(PROGRAMS["stress"]), "--seed", "1", "--seconds", "600", "--threads", "2", "--workers", "2"]
    shown = Shown(stress, 60)
    shown.read(until=b"programs")
    os.kill(shown.child, signal.SIGINT)
    expect(shown.finish() == 130, "Ctrl-C ends stress")
    text = ESCAPE.sub(b"", shown.output)
    expect(re.search(rb"\r\d+ programs  [\d.]+/s  seed \d+  \d+:\d\d of 10:00", text), f"its progress: {text[-300:]}")
    words = b" ".join(text.split())
    expect(re.search(rb"\d+ rounds in .* all as in a serial run interrupted; --seed \d+ goes on", words), f"its sum: {words}")
    expect(len(widest(shown.output)) <= 60, f"its lines fit: {widest(shown.output)}")


if __name__ == "__main__":
    harness.main(globals())
