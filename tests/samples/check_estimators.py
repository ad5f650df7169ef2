#!/usr/bin/env python3
"""The samples that train on data of their own: what they learn, and that a training which is killed goes on exactly."""
import re
import signal

import harness
from harness import device, expect, run, write_dataset
from images import png_rows


def number(result, pattern):
    found = re.findall(pattern, result.stdout)
    expect(result.returncode == 0 and found, f"a figure '{pattern}'", result)
    return float(found[-1])


def check_resume(folder):
    def train(name, *flags):
        return run("resume", folder / name, "--epochs", 8, "--device", device(), *flags)

    def ends(result):
        return result.stdout.splitlines()[-2:]

    whole = train("whole")
    expect(number(whole, r"test accuracy: ([0-9.]+)") > 0.85, "what it learns", whole)
    for batch in (1, 38, 39, 77, 100, 151, 152):
        killed = train("parts", "--kill-after", batch)
        expect(killed.returncode == -signal.SIGKILL, f"killed after {batch} batches", killed)
    checkpoints = sorted((folder / "parts").glob("spiral-0*.npz"))
    expect([path.name for path in checkpoints][-1] == "spiral-00000150.npz" and len(checkpoints) == 3, f"{checkpoints}")
    resumed = train("parts")
    expect("going on after 7 epochs and 17 batches" in resumed.stdout, "it goes on", resumed)
    expect(ends(resumed) == ends(whole), "as if it had not been killed", resumed)
    rows = [(folder / name / "figures.csv").read_bytes() for name in ("whole", "parts")]
    expect(rows[0] == rows[1] and rows[0].count(b"\r\n") == 9, f"rows of figures: {rows}")
    again = train("parts")
    expect(ends(again) == ends(whole) and "training loss" not in again.stdout, "nothing is left to train", again)

    newest = sorted((folder / "parts").glob("spiral-0*.npz"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    damaged = train("parts")
    expect(ends(damaged) == ends(whole) and newest.name in damaged.stderr, "a damaged one is told, the one before counts", damaged)
    for path in (folder / "parts").glob("spiral-0*.npz"):
        path.write_text("torn")
    lost = train("parts")
    expect(lost.returncode == 1 and "no checkpoint is whole" in lost.stderr, "all are damaged", lost)
    (folder / "file").write_text("")
    refused = train("file")
    expect(refused.returncode == 1 and "cannot be written" in refused.stderr, "a folder that is a file", refused)


def check_house_prices(_):
    result = run("house_prices", "--device", device(), "--houses", 1000)
    expect(number(result, r"guessed to ([0-9.]+) %") < 15, "what it learns", result)
    expect(1e-4 <= number(result, r"by a sweep: ([0-9.e-]+)") <= 2e-2, "the rate it found", result)
    expect(len(re.findall(r"m2, .* guessed ", result.stdout)) == 5, "five houses are shown", result)
    few = run("house_prices", "--device", device(), "--houses", 10, "--epochs", 1, "--lr", 0.01)
    expect(len(re.findall(r"m2, .* guessed ", few.stdout)) == 2 and "sweep" not in few.stdout, "few houses", few)


def check_lstm(_):
    small = ["--device", device(), "--length", 10, "--samples", 1500, "--hidden", 16, "--lr", 0.03]
    result = run("lstm", *small)
    expect(number(result, r"test error: ([0-9.]+)") < 0.02, "what it learns", result)
    mixed = run("lstm", *small, "--amp", "bfloat16")
    expect(number(mixed, r"test error: ([0-9.]+)") < 0.02 and mixed.stdout != result.stdout, "in bfloat16 too", mixed)
    shortest = run("lstm", "--device", device(), "--length", 2, "--samples", 1, "--epochs", 1)
    expect(shortest.returncode == 0 and "1 epochs are done" in shortest.stdout, "the least there is", shortest)


def check_gan(_):
    result = run("gan", "--device", device(), "--steps", 1200)
    shares = [(int(share), int(reached)) for share, reached in re.findall(r"(\d+) % of points in (\d) of 8", result.stdout)]
    expect(result.returncode == 0 and len(shares) == 10, "ten lines", result)
    expect(shares[-1][0] > 50 and shares[-1][1] >= 6 and shares[0][1] <= 4, "what it learns", result)


def check_detect_anomaly(folder):
    """Images of classes that it never saw are told from those it learnt, and stand in the picture."""
    picture, small = folder / "worst.png", ["--drawn", 400, "--epochs", 12, "--device", device()]
    result = run("detect_anomaly", picture, *small, "--normal", "2,5", "--worst", 6)
    expect(number(result, r"told from normal ones: ([0-9.]+)") > 0.97, "what it learns", result)
    errors = [(int(label), float(error), bool(normal)) for label, error, normal in
              re.findall(r"^class (\d): 40 images, error ([0-9.]+)(, normal)?$", result.stdout, re.MULTILINE)]
    expect([label for label, _, normal in errors if normal] == [2, 5] and len(errors) == 10, f"classes: {errors}", result)
    expect(2 * max(error for _, error, normal in errors if normal) < min(error for _, error, normal in errors if not normal),
           f"the errors of normal classes are less: {errors}", result)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", result.stdout)]
    expect(len(losses) == 12 and losses[-1] < losses[0] / 3, f"losses {losses}", result)
    rows = png_rows(picture.read_bytes(), 1)
    expect(len(rows) == 2 * 56 and {len(row) for row in rows} == {6 * 56}, f"a picture of {len(rows)} rows")
    for column in range(6):  # the bar of an image is not at the height of a normal class
        shades = [rows[2 * y][column * 56 + 28] for y in range(28)]
        bar = shades.index(max(shades)) // 2 - 2
        expect(max(shades) > 140 and bar not in (2, 5), f"image {column} has its bar at {bar}")
    again = run("detect_anomaly", folder / "again.png", *small, "--normal", "2,5", "--worst", 6)
    expect(again.stdout.replace("again.png", "worst.png") == result.stdout and
           (folder / "again.png").read_bytes() == picture.read_bytes(), "the same seed, the same picture", again)
    write_dataset(folder, train=640)
    result = run("detect_anomaly", picture, "--data", folder, "--device", device(), "--epochs", 30)
    expect("128 images of classes 7, 9 to learn from, 100 new ones" in result.stdout, "Fashion-MNIST's files", result)
    expect(number(result, r"told from normal ones: ([0-9.]+)") > 0.9, "what it learns of them", result)
    for arguments, word in (([folder / "none" / "a.png", "--drawn", 20], "no folder"), ([picture, "--data", folder / "none"], "no such folder"),
                            ([picture, "--drawn", 20, "--batch", 64], "too few")):
        result = run("detect_anomaly", *arguments, "--device", device())
        expect(result.returncode == 1 and word in result.stderr, f"detect_anomaly {arguments}", result)
    for arguments in (["--normal", "10"], ["--normal", "a"], ["--drawn", 9], ["--drawn", 10, "--data", folder], ["--worst", 0]):
        expect(run("detect_anomaly", picture, *arguments).returncode == 2, f"detect_anomaly {arguments}")


if __name__ == "__main__":
    harness.main(globals())
