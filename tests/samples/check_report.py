#!/usr/bin/env python3
"""The figures at the end, and the page of --report. See harness.py."""
import base64
import html.parser
import re
import shutil
import signal
import subprocess

import harness
from harness import expect, succeeds, train, write_dataset
from images import png_rows

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(html.parser.HTMLParser):
    """Reads a page; remembers its elements, and what is wrong with it."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.elements, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at line {self.getpos()[0]} closes nothing that is open last")

    def handle_data(self, data):
        self.text += data

    def named(self, tag, cls=None):
        return [attrs for name, attrs in self.elements if name == tag and (cls is None or attrs.get("class") == cls)]


def outside_resources(page):
    """What the page would load from elsewhere."""
    found = []
    for tag, attrs in page.elements:
        if tag in ("link", "script", "iframe", "object"):
            found.append(tag)
        found += [value for name, value in attrs.items()
                  if name in ("src", "href", "xlink:href") and not (value or "").startswith(("data:", "#"))]
    return found


def check_matrix(folder):
    """The printed matrix holds every test image, and its diagonal the hits."""
    write_dataset(folder)
    result = succeeds(train("mlp", folder, "--epochs", 3, "--batch-size", 64), "training")
    rows = re.findall(r"^ *(\d) (\D*?[a-z])  +((?:[\d.]+ *){10})$", result.stdout, re.MULTILINE)
    expect([int(label) for label, _, _ in rows] == list(range(10)), "ten rows", result)
    names = [name for _, name, _ in rows]
    expect((names[0], names[9]) == ("T-shirt/top", "ankle boot"), f"Fashion-MNIST's classes: {names}", result)
    counts = [[0 if cell == "." else int(cell) for cell in cells.split()] for _, _, cells in rows]
    expect(sum(map(sum, counts)) == 100 and all(sum(row) == 10 for row in counts), "100 images, ten a class", result)
    accuracy = float(re.search(r"^test accuracy: (.*)$", result.stdout, re.MULTILINE).group(1))
    expect(round(100 * accuracy) == sum(counts[i][i] for i in range(10)), "the diagonal holds the hits", result)
    worst = re.search(r"^worst classes: (.+?): precision ([\d.]+), recall ([\d.]+)", result.stdout, re.MULTILINE)
    label = names.index(worst.group(1))
    expect(abs(float(worst.group(3)) - counts[label][label] / 10) < 1e-3, "the recall of the worst class", result)


def check_page(folder):
    write_dataset(folder)
    out = folder / "new" / "report"
    # One step of a small rate: many mistakes.
    result = succeeds(train("mlp", folder, "--epochs", 2, "--batch-size", 512, "--lr", "1e-4", "--report", out), "a report")
    expect(f"report written to {out / 'index.html'}" in result.stdout, "its name is said", result)
    expect(sorted(path.name for path in out.iterdir()) == ["index.html"], "nothing but the page")
    page = Page((out / "index.html").read_text(encoding="utf-8"))
    expect(not page.faults, f"well-formed: {page.faults}")
    expect(not outside_resources(page), f"self-contained: {outside_resources(page)}")
    style = re.search(r"<style>(.*)</style>", (out / "index.html").read_text(encoding="utf-8"), re.DOTALL).group(1)
    expect("url(" not in style and "@import" not in style and "prefers-color-scheme: dark" in style, "light and dark")
    expect(len(page.named("svg")) == 2, "two drawings")
    for kind in ("train", "test"):
        for line in page.named("polyline", kind):
            expect(len(line["points"].split()) == 2, f"a point an epoch: {line}")
    expect(len(page.named("polyline")) == 4, "loss and accuracy of training and validation")
    accuracy = re.search(r"^test accuracy: (.*)$", result.stdout, re.MULTILINE).group(1)
    expect(f"{100 * float(accuracy):.2f}%" in page.text, "the accuracy")
    for setting in ("batch-size", "512", "0.0001", "learning rate", "Confusion matrix"):
        expect(setting in page.text, f"{setting} stands on the page")
    pictures = [attrs["src"] for attrs in page.named("img")]
    expect(len(pictures) == min(25, round(100 * (1 - float(accuracy)))), f"{len(pictures)} pictures of mistakes", result)
    for picture in pictures:
        kind, data = picture.split(",", 1)
        rows = png_rows(base64.b64decode(data, validate=True), 1)
        expect(kind == "data:image/png;base64" and len(rows) == 112 and len(rows[0]) == 112, "a picture of 28 x 28, enlarged")
        expect(all(rows[y][x] == rows[y // 4 * 4][x // 4 * 4] for y in range(112) for x in range(112)), "by whole pixels")
    shares = [float(share) for share in re.findall(r"</b> ([\d.]+)%<br", (out / "index.html").read_text(encoding="utf-8"))]
    expect(shares == sorted(shares, reverse=True) and len(shares) == len(pictures), f"the surest first: {shares}")


def check_places(folder):
    write_dataset(folder)
    (folder / "file").write_text("kept")
    for place in (folder / "file", folder / "file" / "below"):
        result = train("mlp", folder, "--epochs", 1000, "--report", place)
        expect(result.returncode == 1 and "--report" in result.stderr and "epoch" not in result.stdout,
               f"{place} is refused before training", result)
    expect((folder / "file").read_text() == "kept", "the file is untouched")
    out = folder / "out"
    command = harness.train_command("mlp", folder, "--epochs", 2, "--report", out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        text = ""
        for line in process.stdout:
            text += line
            if "images, on" in line:
                shutil.rmtree(out)
        ended = process.wait(timeout=120)
    expect(ended == 1 and "--report: " in text and "report written" not in text and "test accuracy" in text,
           f"a page that cannot be written: {ended} {text}")


def check_unfinished(folder):
    """A run that was stopped, or that came to nothing, leaves a page of what there is."""
    write_dataset(folder)
    out = folder / "stopped"
    command = harness.train_command("mlp", folder, "--epochs", 100000, "--batch-size", 32, "--report", out)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while not process.stdout.readline().startswith("epoch 2/"):
            expect(process.poll() is None, "it trains")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        expect(process.wait(timeout=120) == 130, "Ctrl-C")
    diverged = folder / "diverged"
    result = train("mlp", folder, "--epochs", 50, "--lr", "30", "--batch-size", 8, "--report", diverged)
    expect(result.returncode == 1, "divergence", result)
    for place, word in ((out, "interrupted"), (diverged, "training diverges")):
        page = Page((place / "index.html").read_text(encoding="utf-8"))
        expect(not page.faults and word in page.text and "batch-size" in page.text, f"{word}: {page.faults} {page.text[-500:]}")
    expect(len(Page((out / "index.html").read_text(encoding="utf-8")).named("polyline")) == 4, "the epochs before Ctrl-C")
    result = train("mlp", folder / "nowhere", "--report", folder / "unused")
    expect(result.returncode == 1 and not (folder / "unused").exists(), "no folder where nothing began", result)


if __name__ == "__main__":
    harness.main(globals())
