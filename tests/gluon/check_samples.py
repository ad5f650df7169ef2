#!/usr/bin/env python3
"""Runs the samples on small files made here: what they print, write, and return.

Usage: check_samples.py [--device DEVICE] CHECK NAME=PROGRAM ..., where CHECK is one of the functions below or "all".
"""
import collections
import gzip
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

PROGRAMS = {}
DEVICE = "cpu"


class Skipped(Exception):
    """What the check is about is not there."""


def run(name, *arguments, **options):
    return subprocess.run(
        [PROGRAMS[name], *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options)


def expect(holds, what, result=None):
    if not holds:
        shown = f"\nexit {result.returncode}\n{result.stdout}\n{result.stderr}" if result is not None else ""
        raise AssertionError(what + shown)


def idx(extents, values):
    return struct.pack(">HBB", 0, 8, len(extents)) + struct.pack(f">{len(extents)}I", *extents) + bytes(values)


def write_dataset(folder):
    """Ten classes: a bright bar at the height of the class."""
    for stem, count in (("train", 512), ("t10k", 100)):
        labels = [(i * 7 + i // 10) % 10 for i in range(count)]
        pixels = bytearray()
        for i, label in enumerate(labels):
            for row in range(28):
                value = 220 if row // 2 - 2 == label else 10
                pixels += bytes(value + (i * 13 + row * 5 + column * 3) % 30 for column in range(28))
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx([count, 28, 28], pixels)))
        (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx([count], labels)))


def png(width, height, colour_type, rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def read_png(path, channels):
    """Rows of a PNG of 8-bit channels, any filters."""
    content, at, data = path.read_bytes(), 8, b""
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", content[at + 8:at + 16])
        if kind == b"IDAT":
            data += content[at + 8:at + 8 + length]
        at += length + 12
    data, stride, before, rows = zlib.decompress(data), width * channels, bytes(width * channels), []
    for y in range(height):
        kind, row = data[y * (stride + 1)], bytearray(data[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            a, b, c = (row[x - channels] if x >= channels else 0, before[x], before[x - channels] if x >= channels else 0)
            nearest = min((a, b, c), key=lambda v, p=a + b - c: abs(p - v))
            row[x] = (row[x] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        rows.append(list(row))
        before = bytes(row)
    return rows


def sharpened(rows, channels, keep_last):
    height, width = len(rows), len(rows[0]) // channels

    def at(y, x, c):
        return rows[min(max(y, 0), height - 1)][min(max(x, 0), width - 1) * channels + c]

    def one(y, x, c):
        if keep_last and c == channels - 1:
            return at(y, x, c)
        value = 5 * at(y, x, c) - at(y - 1, x, c) - at(y + 1, x, c) - at(y, x - 1, c) - at(y, x + 1, c)
        return min(max(value, 0), 255)

    return [[one(y, x, c) for x in range(width) for c in range(channels)] for y in range(height)]


def check_sharpen(folder):
    for colour_type, channels in ((0, 1), (4, 2), (2, 3), (6, 4)):
        rows = [[(y * 31 + x * 7 + x * x) % 256 for x in range(9 * channels)] for y in range(7)]
        (folder / "in.png").write_bytes(png(9, 7, colour_type, rows))
        result = run("sharpen", folder / "in.png", folder / "out.png", "--device", DEVICE)
        expect(result.returncode == 0, f"sharpen of {channels} channels", result)
        expect(read_png(folder / "out.png", channels) == sharpened(rows, channels, channels % 2 == 0),
               f"pixels of {channels} channels")
    good = (folder / "in.png").read_bytes()
    for name, content in (("foreign", b"GIF89a" + bytes(100)), ("empty", b""), ("truncated", good[:len(good) // 2]),
                          ("cut", good[:40]), ("damaged", good[:60] + b"\xff\xff\xff" + good[63:])):
        (folder / f"{name}.png").write_bytes(content)
        result = run("sharpen", folder / f"{name}.png", folder / "out2.png", "--device", DEVICE)
        expect(result.returncode == 1 and f"{name}.png" in result.stderr, f"a {name} PNG", result)
        expect(not (folder / "out2.png").exists(), f"a {name} PNG gives no output")
    result = run("sharpen", folder / "absent.png", folder / "out2.png")
    expect(result.returncode == 1 and "no such file" in result.stderr, "a missing PNG", result)
    result = run("sharpen", folder / "in.png", folder / "nowhere" / "out.png")
    expect(result.returncode == 1 and "nowhere" in result.stderr, "a folder that is not there", result)
    expect(run("sharpen", folder / "in.png").returncode == 2, "a missing argument")


def check_engine_only(_):
    result = run("engine_only", "--threads", 2, "--rounds", 20)
    expect(result.returncode == 0 and "60 tasks" in result.stdout, "engine_only", result)
    expect("never runs" not in result.stdout and "reader" in result.stdout, "the failure names its task", result)


def check_cholesky(_):
    if "cholesky" not in PROGRAMS:
        raise Skipped("cholesky was left out of this build: no OpenBLAS and LAPACKE")
    for arguments in (["--size", 300, "--tile", 64], ["--size", 257, "--tile", 40, "--workers", 3, "--priority"],
                      ["--size", 50, "--tile", 80], ["--size", 40, "--tile", 1, "--workers", 2]):
        result = run("cholesky", "--device", DEVICE, *arguments, "--repeats", 2)
        expect(result.returncode == 0 and "speed-up" in result.stdout, f"cholesky {arguments}", result)
    result = run("cholesky", "--device", DEVICE, "--size", 100, "--tile", 30, "--indefinite")
    task = "potrf" if DEVICE == "cpu" else "check pivots"  # what a GPU finds out fails the task that looks at it
    expect(result.returncode == 1 and "not positive definite: see row 99" in result.stderr and task in result.stderr,
           "a matrix without a factor", result)


def check_streams(folder):
    if "streams" not in PROGRAMS:
        raise Skipped("streams was left out of this build: no CUDA")
    expect(run("streams", "--repeats", 0).returncode == 2, "streams without a run")
    small = ["--repeats", 2, "--turns", 200, "--rounds", 3, "--batches", 7, "--batch", 10000]
    result = run("streams", *small, "--trace", folder / "trace.svg")
    if result.returncode == 77 and "skipped" in result.stdout:
        raise Skipped("streams needs a GPU")
    expect(result.returncode == 0 and result.stdout.count("times as fast") == 3, "streams", result)
    drawn = xml.etree.ElementTree.parse(folder / "trace.svg").getroot()
    expect(drawn.tag.endswith("svg") and len(drawn) > 0, "the picture of the trace")
    result = run("streams", *small, "--device", "cpu")
    expect(result.returncode == 1 and "GPU" in result.stderr, "streams on a CPU", result)


def check_stress(_):
    small = ["--steps", 40, "--seed", 1, "--threads", 3, "--workers", 2]
    for policy in ("pool", "serial", "chaos", "chaos-pool"):
        result = run("stress", *small, "--rounds", 20, "--policy", policy)
        expect(result.returncode == 0 and "20 rounds" in result.stdout and "all as in a serial run" in result.stdout,
               f"stress on {policy}", result)
    for plant in ("access", "error"):
        result = run("stress", *small, "--rounds", 20, "--plant", plant)
        failed = re.search(r"^FAILED with seed (\d+): ", result.stdout, re.MULTILINE)
        again = re.search(r"^replay: stress (.*)$", result.stdout, re.MULTILINE)
        expect(result.returncode == 1 and failed and again, f"the planted fault '{plant}' is found", result)
        if plant == "error":  # does not hang on the timing
            result = run("stress", *again.group(1).split())
            expect(result.returncode == 1 and failed.group(0) in result.stdout, "the replay finds it again", result)
    result = run("stress", "--policy", "none-such")
    expect(result.returncode == 1 and "none-such" in result.stderr, "an unknown policy", result)
def check_trace(folder):
    out = folder / "new" / "trace"
    result = run("trace", "--threads", 3, "--frames", 4, "--out", out)
    expect(result.returncode == 0 and "24 tasks" in result.stdout, "trace", result)
    expect("pushed 24, retired 24, run 22, skipped 2, failed 1" in result.stdout, "the counters", result)
    expect("frame 1 is damaged" in result.stdout and "frame 3: median" in result.stdout, "one frame fails", result)
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    outcomes = collections.Counter(event["args"]["outcome"] for event in events if event.get("cat") == "task")
    expect(outcomes == {"ok": 21, "failed": 1, "skipped": 2}, f"tasks of trace.json: {outcomes}")
    edges = len(re.findall(r"^  t\d+ -> t\d+ ", (out / "trace.dot").read_text(), re.MULTILINE))
    expect(f"{edges} dependencies" in result.stdout and edges > 24, "edges of trace.dot", result)
    picture = xml.etree.ElementTree.parse(out / "trace.svg").getroot()
    boxes = picture.findall("{http://www.w3.org/2000/svg}g")
    expect(len(boxes) == 24, f"boxes of trace.svg: {len(boxes)}")
    (folder / "file").write_text("")
    result = run("trace", "--out", folder / "file")
    expect(result.returncode == 1 and "file" in result.stderr, "a folder that is a file", result)


def check_async_server(_):
    for arguments in (["--threads", 1], ["--threads", 3, "--workers", 2], ["--shared"], ["--shared", "--threads", 3]):
        result = run("async_server", "--connections", 5, "--requests", 120, "--features", 20, *arguments)
        expect(result.returncode == 0, f"async_server {arguments}", result)
        counts = re.search(r"all answers right: (\d+) scores, (\d+) updates, (\d+) refusals", result.stdout)
        expect(counts and sum(map(int, counts.groups())) == 600 and int(counts.group(3)) == 10, "its answers", result)
        expect(re.search(r"^ +5 +600( +\d+){4}$", result.stdout, re.MULTILINE), "its table", result)
    command = [str(PROGRAMS["async_server"]), "--serve", "--features", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        port = re.search(r":(\d+)$", server.stdout.readline()).group(1)
        result = run("async_server", "--client", "--port", port, "--connections", 2, "--requests", 60, "--features", 20)
        expect(result.returncode == 0, "a client of its own", result)
        result = run("async_server", "--client", "--port", port, "--features", 21)
        expect(result.returncode == 1 and "20 wanted" in result.stderr, "a client with other numbers", result)
        server.send_signal(signal.SIGINT)
        expect(server.wait(timeout=60) == 0, "Ctrl-C ends the server")


def train(name, folder, *arguments):
    return run(name, "--data", folder, "--device", DEVICE, *arguments)


def check_training(folder):
    write_dataset(folder)
    for name, arguments in (("mlp", ["--epochs", 6, "--batch-size", 64]),
                            ("cnn", ["--model", "tf", "--epochs", 2]),
                            ("cnn", ["--model", "torch", "--epochs", 1, "--optimizer", "sgd", "--lr", "0.02"])):
        result = train(name, folder, *arguments, "--losses", 3)
        last = result.stdout.strip().split("\n")[-1]
        expect(result.returncode == 0 and re.fullmatch(r"test accuracy: \d\.\d{4}", last), f"{name} {arguments}", result)
        losses = re.findall(r"^loss (\d+) ([0-9.e+-]+)$", result.stdout, re.MULTILINE)
        expect([step for step, _ in losses] == ["0", "1", "2"], "the first losses", result)
        expect("\033" not in result.stdout, "plain lines when not on a terminal", result)
        if name == "mlp":
            expect(float(last.split()[-1]) > 0.9, "the network learns", result)
            again = train(name, folder, *arguments, "--losses", 3)
            expect(losses == re.findall(r"^loss (\d+) ([0-9.e+-]+)$", again.stdout, re.MULTILINE), "one seed", again)


def check_save_and_load(folder):
    write_dataset(folder)
    saved = folder / "net.npz"
    result = train("mlp", folder, "--epochs", 5, "--batch-size", 32, "--save", saved)
    expect(result.returncode == 0 and saved.exists(), "saving", result)
    result = train("mlp", folder, "--epochs", 1, "--batch-size", 32, "--losses", 1, "--load", saved)
    loss = float(re.search(r"^loss 0 (.*)$", result.stdout, re.MULTILINE).group(1))
    expect(result.returncode == 0 and loss < 0.7, "training goes on where it stopped", result)
    result = train("cnn", folder, "--epochs", 1, "--load", saved)
    expect(result.returncode == 1 and "net.npz" in result.stderr, "parameters of another network", result)
    saved.write_bytes(saved.read_bytes()[:1000])
    result = train("mlp", folder, "--load", saved)
    expect(result.returncode == 1 and "net.npz" in result.stderr, "truncated parameters", result)


def check_interrupt(folder):
    write_dataset(folder)
    for save in ([], ["--save", folder / "stopped.npz"]):
        command = [PROGRAMS["mlp"], "--data", folder, "--device", DEVICE, "--epochs", "100000", "--batch-size", "32", *save]
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("epoch 2/"):
                    process.send_signal(signal.SIGINT)
            expect(process.wait(timeout=60) == 130, "the exit code after Ctrl-C: " + "".join(lines[-3:]))
        expect("interrupted" in lines[-1], "Ctrl-C is acknowledged: " + lines[-1])
        expect((folder / "stopped.npz").exists() == bool(save), "Ctrl-C saves what --save names")
    expect("saved to" in lines[-2], "saving is said: " + lines[-2])


def check_terminal(folder):
    write_dataset(folder)
    shown = b""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROGRAMS["cnn"], [PROGRAMS["cnn"], "--data", str(folder), "--device", DEVICE, "--epochs", "1"])
    try:
        while True:
            shown += os.read(terminal, 4096)
    except OSError:
        pass  # the child closed its end
    _, status = os.waitpid(child, 0)
    expect(os.waitstatus_to_exitcode(status) == 0, "a run on a terminal")
    expect(b"\r" in shown and b"images/s" in shown and b"test accuracy:" in shown, f"a progress bar: {shown[-500:]}")


def check_bad_input(folder):
    for name in PROGRAMS:
        result = run(name, "--help")
        expect(result.returncode == 0 and "Usage" in result.stdout, f"{name} --help", result)
        result = run(name, *(["in.png", "out.png"] if name == "sharpen" else []), "--no-such-flag")
        expect(result.returncode == 2 and "no-such-flag" in result.stderr, f"{name}: an unknown flag", result)
    for flag, value in (("--device", "tpu"), ("--device", "gpu:99"), ("--epochs", "0"), ("--epochs", "many"),
                        ("--batch-size", "-1"), ("--lr", "-1"), ("--optimizer", "lbfgs"), ("--model", "vgg"),
                        ("--seed", "x"), ("--threads", "0"), ("--losses", "-1"), ("--precision", "low")):
        result = run("cnn", flag, value)
        expect(result.returncode == 2 and flag in result.stderr, f"cnn {flag} {value}", result)
    result = train("mlp", folder / "nowhere")
    expect(result.returncode == 1 and "nowhere" in result.stderr, "a data folder that is not there", result)
    result = train("mlp", folder, "--save", folder / "nowhere" / "net.npz")
    expect(result.returncode == 1 and "nowhere" in result.stderr, "a folder for saving that is not there", result)
    write_dataset(folder)
    images = folder / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:2000])
    result = train("mlp", folder)
    expect(result.returncode == 1 and "train-images" in result.stderr and "truncated" in result.stderr, "truncated", result)
    result = train("mlp", folder, "--load", folder / "absent.npz")
    expect(result.returncode == 1, "parameters that are not there", result)


CHECKS = (check_engine_only, check_trace, check_async_server, check_cholesky, check_streams, check_stress, check_sharpen,
          check_bad_input, check_training, check_save_and_load, check_interrupt, check_terminal)


def main():
    global DEVICE
    arguments = sys.argv[1:]
    if arguments[0] == "--device":
        DEVICE, arguments = arguments[1], arguments[2:]
    chosen, *programs = arguments
    PROGRAMS.update(argument.split("=", 1) for argument in programs)
    os.environ.pop("SLUICE_DATA", None)
    for check in CHECKS:
        if chosen in ("all", check.__name__):
            try:
                with tempfile.TemporaryDirectory() as folder:
                    check(pathlib.Path(folder))
            except Skipped as reason:
                print("SKIPPED:", reason)
                if chosen != "all":
                    sys.exit(77)
                continue
            print("passed:", check.__name__)


main()
