#!/usr/bin/env python3
"""The samples that do not train: what they print, write, and return. See harness.py."""
import collections
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess
import xml.etree.ElementTree
import zlib

import harness
from harness import PROGRAMS, Skipped, device, expect, run
from images import jpeg, png, png_rows


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
        result = run("sharpen", folder / "in.png", folder / "out.png", "--device", device())
        expect(result.returncode == 0, f"sharpen of {channels} channels", result)
        expect(png_rows((folder / "out.png").read_bytes(), channels) == sharpened(rows, channels, channels % 2 == 0),
               f"pixels of {channels} channels")
    good = (folder / "in.png").read_bytes()
    for name, content in (("foreign", b"GIF89a" + bytes(100)), ("empty", b""), ("truncated", good[:len(good) // 2]),
                          ("cut", good[:40]), ("damaged", good[:60] + b"\xff\xff\xff" + good[63:])):
        (folder / f"{name}.png").write_bytes(content)
        result = run("sharpen", folder / f"{name}.png", folder / "out2.png", "--device", device())
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
        result = run("cholesky", "--device", device(), *arguments, "--repeats", 2)
        expect(result.returncode == 0 and "speed-up" in result.stdout, f"cholesky {arguments}", result)
    result = run("cholesky", "--device", device(), "--size", 100, "--tile", 30, "--indefinite")
    task = "potrf" if device() == "cpu" else "check pivots"  # what a GPU finds out fails the task that looks at it
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
    result = run("stress", *small, "--rounds", 3, "--device", "gpu")
    if device() == "gpu":
        expect(result.returncode == 0 and "all as in a serial run" in result.stdout, "stress with GPU tasks", result)
    else:
        expect(result.returncode == 1 and "there is no GPU" in result.stderr, "stress with GPU tasks, without", result)


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
    result = run("trace", "--out", "")
    expect(result.returncode == 2 and "--out: the name is empty" in result.stderr, "a folder without a name", result)

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    before = {path: path.read_bytes() for path in out.iterdir()}
    result = run("trace", "--out", out, preexec_fn=small_files)
    expect(result.returncode == 1 and "trace.json: cannot be written: File too large" in result.stderr, "a full disk", result)
    expect({path: path.read_bytes() for path in out.iterdir()} == before, "what was there stays, alone")


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
    command = [str(PROGRAMS["async_server"]), "--connections", "2", "--requests", "10000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as both:
        expect("serving" in both.stdout.readline(), "server and client")
        both.send_signal(signal.SIGINT)
        _, said = both.communicate(timeout=60)
        expect(both.returncode == 130 and said == "", f"Ctrl-C ends both, quietly: {both.returncode} {said}")


def check_infer(folder):
    """Two networks that were trained and exported here, over images of the data they were trained on."""
    harness.write_dataset(folder)
    images = folder / "images"
    images.mkdir()
    labels = {f"{i:02}.png": (i * 7 + i // 10) % 10 for i in range(30)}
    for i, (name, label) in enumerate(labels.items()):
        rows = [[(220 if y // 2 - 2 == label else 10) + (i * 13 + y * 5 + x * 3) % 30 for x in range(28)] for y in range(28)]
        if name == "03.png":  # grey as a colour
            (images / name).write_bytes(png(28, 28, 2, [[value for value in row for _ in range(3)] for row in rows]))
        else:
            (images / name).write_bytes(png(28, 28, 0, rows))
    (images / "notes.txt").write_text("no image")
    for program, flags in (("mlp", []), ("cnn", ["--model", "tf"])):
        result = harness.train(program, folder, "--epochs", 4, "--batch-size", 32, *flags, "--export", folder / program)
        expect(result.returncode == 0 and f"exported to {folder / program}.json" in result.stdout, "--export", result)
        result = run("infer", folder / program, images, "--top", 2, "--batch-size", 7, "--device", device())
        lines = dict(line.split(": ") for line in result.stdout.splitlines()[:-1])
        expect(result.returncode == 0 and lines.keys() == labels.keys() and "30 image(s)" in result.stdout, program, result)
        names = [guess.split(", ")[0].rsplit(" ", 1)[0] for guess in lines.values()]
        expect(len({(name, label) for name, label in zip(names, labels.values())}) == 10, f"{program} tells classes", result)
        chances = [float(part.rsplit(" ", 1)[1]) for guess in lines.values() for part in guess.split(", ")]
        expect(len(chances) == 60 and all(0 <= chance <= 1.0001 for chance in chances), f"{program}'s chances", result)
    one = run("infer", folder / "mlp.json", images / "00.png", "--top", 100, "--device", device())
    expect(one.returncode == 0 and one.stdout.count(",") == 10 and "1 image(s)" in one.stdout, "one image", one)
    grey = png_rows((images / "00.png").read_bytes(), 1)
    (images / "30.jpg").write_bytes(jpeg(28, 28, grey))
    mixed = run("infer", folder / "mlp", images, "--top", 1, "--device", device())
    guesses = dict(line.split(": ") for line in mixed.stdout.splitlines()[:-1])
    expect("31 image(s)" in mixed.stdout and guesses.keys() == {*labels, "30.jpg"}, "PNGs and a JPEG", mixed)
    same = [float(guesses[name].rsplit(" ", 1)[1]) for name in ("00.png", "30.jpg")]
    expect(abs(same[0] - same[1]) < 0.02 and guesses["00.png"].rsplit(" ", 1)[0] == guesses["30.jpg"].rsplit(" ", 1)[0],
           "an image as PNG and as JPEG", mixed)
    (images / "wide.png").write_bytes(png(4, 2, 0, [[0] * 4] * 2))
    graph = (folder / "mlp.json").read_text()
    (folder / "bad.json").write_text(graph.replace("dense", "tense"))
    for arguments, words in (
            ((folder / "mlp", images), ("wide.png", "28 x 28")), ((folder / "none", images), ("none.json",)),
            ((folder / "bad", images), ("bad.json", "damaged")), ((folder / "mlp", folder / "none"), ("none",)),
            ((folder / "mlp", folder), ("ends in .png, .jpg",))):
        result = run("infer", *arguments, "--device", device())
        expect(result.returncode == 1 and all(word in result.stderr for word in words), f"infer {arguments}", result)
    expect(run("infer", folder / "mlp").returncode == 2, "no images are named")
    result = harness.train("mlp", folder, "--epochs", 1, "--export", folder / "nowhere" / "net")
    expect(result.returncode == 1 and "--export" in result.stderr and "epoch" not in result.stdout, "no such folder", result)


SVG = "{http://www.w3.org/2000/svg}"


def boxes_of(path):
    """Of a picture that XML readers take: (x, y, width, height, title) of each rectangle."""
    boxes = []
    for rect in xml.etree.ElementTree.parse(path).getroot().iter(SVG + "rect"):
        title = rect.find(SVG + "title")
        if title is not None:
            boxes.append((*(int(rect.get(key)) for key in ("x", "y", "width", "height")), title.text or ""))
    return boxes


def overlaps(boxes):
    return [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]
            if a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]]


def check_pictures(out, result):
    """The files of `inspect`, against each other. Gives the nodes after the passes, a line each."""
    expect(result.returncode == 0 and (out / "summary.txt").read_text() in result.stdout, f"inspect {out}", result)
    lines = {}
    for name in ("graph_before", "graph_after"):
        lines[name] = (out / f"{name}.txt").read_text().splitlines()[1:-2]
        boxes = boxes_of(out / f"{name}.svg")
        sites = [box[4] for box in boxes if ".cpp:" in box[4] or ".h:" in box[4]]
        expect(len(sites) == len(lines[name]) and not overlaps(boxes), f"boxes of {out}/{name}: {len(sites)}")
        dot = (out / f"{name}.dot").read_text()
        expect(len(re.findall(r"^  n\d+ \[", dot, re.MULTILINE)) == len(lines[name]), f"{out}/{name}.dot")
    held = boxes_of(out / "memory.svg")
    expect(held and not overlaps(held), f"{out}/memory.svg: {overlaps(held)}")
    expect(f"{len(lines['graph_before'])} nodes, {len(lines['graph_after'])} after the passes" in result.stdout, "nodes", result)
    return lines["graph_after"]


def with_elementwise_tail(graph):
    """Elementwise calls behind a network's last one, of a layer with an odd name. A file's checksum is of its own text."""
    made = json.loads(graph)
    value = 1 + max(one.get("value", 0) for node in made["nodes"] for one in node["results"])
    last = made["outputs"][0]["value"]
    result = next(one for node in made["nodes"] for one in node["results"] if one.get("value") == last)
    for i, (name, inputs) in enumerate((("tanh", [last]), ("sigmoid", [value]), ("add", [value, value + 1]))):
        made["nodes"].append({"op": name, "inputs": inputs, "attributes": {}, "results": [{**result, "value": value + i}],
                              "call": {"layer": "layer <odd> & \"so\" (Tail)", "file": "a<b>&.cpp", "line": 7}})
    made["outputs"][0]["value"] = value + 2
    rest = json.dumps({key: made[key] for key in made if key not in ("format", "version", "checksum")})
    text = '{\n "format": "sluice graph",\n "version": 1,\n "checksum": "00000000",\n' + rest[1:] + "\n"
    return text.replace("00000000", f"{zlib.crc32(text.encode()):08x}", 1)


def check_inspect(folder):
    for name, parameters in (("mlp", "203,530"), ("cnn-torch", "1,199,882"), ("cnn-tf", "347,146")):
        for flags in ((), ("--train",)):
            out = folder / "new" / f"{name}{len(flags)}"
            result = run("inspect", name, *flags, "--batch-size", 4, "--out", out, "--device", device())
            nodes = check_pictures(out, result)
            expect(f"parameters: {parameters} (" in result.stdout, f"parameters of {name}", result)
            expect(("adam_update" in nodes[-1]) == bool(flags), f"{name} {flags}: {nodes[-1]}")
            expect(not (out / "kernels.txt").exists(), "kernels are there only where they are asked for")
    harness.write_dataset(folder)
    result = harness.train("mlp", folder, "--epochs", 1, "--export", folder / "mlp")
    expect(result.returncode == 0, "an exported network", result)
    (folder / "mlp.json").write_text(with_elementwise_tail((folder / "mlp.json").read_text()))
    for flags in ((), ("--train",)):
        out = folder / f"mlp{len(flags)}"
        result = run("inspect", folder / "mlp", *flags, "--kernels", "--batch-size", 5, "--out", out, "--device", device())
        nodes = check_pictures(out, result)
        expect("SymbolBlock" in result.stdout and "float32 (5, 10)" in "".join(nodes), "a network from a file", result)
        layers = re.findall(r"^  (the network|[0-9]+) +([A-Za-z]+)\((.*)\)$", result.stdout, re.MULTILINE)
        expect(layers[0][:2] == ("the network", "Sequential"), f"what it was: {layers}", result)
        expect(any(kind == "Dense" and "in_units=784" in options for _, kind, options in layers), f"layers: {layers}", result)
        titles = [box[4] for box in boxes_of(out / "graph_after.svg")]
        expect(any('layer <odd> & "so" (Tail) at a<b>&.cpp:7' in title for title in titles), f"names: {titles}")
        kernels = (out / "kernels.txt").read_text()
        count = len(re.findall("^// -- kernel ", kernels, re.MULTILINE))
        expect(kernels.startswith(f"{count} fused kernel(s)"), "how many kernels there are")
        fused = sum("fused(" in node for node in nodes)
        expect(fused >= count and (count > 0 or device() == "gpu"), f"kernels of {fused} nodes: {kernels}")
        expect(count == 0 or "tanh, sigmoid, add" in kernels and "Unary::tanh" in kernels, f"their source: {kernels}")
    (folder / "file").write_text("")
    for arguments, words in ((("none-such",), ("none-such.json",)), (("mlp", "--out", folder / "file"), ("--out", "file"))):
        result = run("inspect", *arguments, "--device", device())
        expect(result.returncode == 1 and all(word in result.stderr for word in words), f"inspect {arguments}", result)
    expect(run("inspect").returncode == 2 and run("inspect", "").returncode == 2, "no network is named")


def one_line(result, what, *words):
    """An error that is told in one line, without the insides of libraries."""
    expect(result.returncode == 1 and result.stderr.count("\n") == 1, f"{what}: one line", result)
    expect(all(word in result.stderr for word in words), f"{what}: {words}", result)
    expect(not any(word in result.stderr for word in (".hpp", "boost", "system:", "[")), f"{what}: nothing of Boost's", result)


def check_network_errors(_):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        one_line(run("async_server", "--client", "--port", port), "nobody listens", port, "no server listens", "--serve")
        taken.listen()
        one_line(run("async_server", "--serve", "--port", port), "a port in use", port, "in use", "--port")
    with socket.socket() as deaf:  # takes connections and ends them
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        port = str(deaf.getsockname()[1])
        client = subprocess.Popen([PROGRAMS["async_server"], "--client", "--port", port, "--connections", "1"],
                                  stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deaf.accept()[0].close()
        out, err = client.communicate(timeout=60)
        one_line(subprocess.CompletedProcess([], client.returncode, out, err), "a server that hangs up", port, "closed")
    for arguments, flag in ((["--client"], "--port"), (["--port", "70000"], "--port"), (["--port", "0"], "--port")):
        result = run("async_server", *arguments)
        expect(result.returncode == 2 and flag in result.stderr, f"async_server {arguments}", result)


if __name__ == "__main__":
    harness.main(globals())
