#!/usr/bin/env python3
"""Ctrl-C in the samples that train on data of their own: they end in order, and where they saved they go on exactly."""
import os
import signal

import harness
from harness import PROGRAMS, device, expect, interrupted_run, run, succeeds

LONG = 10**6
SMALL_TEXT = ["--units", 16, "--heads", 2, "--layers", 1, "--length", 12, "--batch", 8, "--lr", 0.02]


def write_text(folder):
    (folder / "text").write_text("the cat sat on the mat. " * 60)
    return folder / "text"


def interrupt(folder, name, flags, at, send=signal.SIGINT):
    """(exit code, lines) of a program whose temporary files go into a folder that has to be empty behind it."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [str(part) for part in (PROGRAMS[name], *flags, "--device", device())]
    ended, lines = interrupted_run(command, at, send, env={**os.environ, "TMPDIR": str(temporary)}, cwd=folder)
    expect(not list(temporary.iterdir()), f"{name} leaves {list(temporary.iterdir())}")
    return ended, lines


def check_unsaved(folder):
    """Programs that were not asked to save say so; no picture and no folder of theirs is left."""
    text = write_text(folder)
    pictures = {name: folder / f"{name}.png" for name in ("segmentation", "detect_anomaly")}
    programs = (
        ("gan", ["--steps", 20000, "--batch", 8], "step "),
        ("segmentation", [pictures["segmentation"], "--steps", 1000, "--size", 16, "--channels", 2], "step  200"),
        ("detect_anomaly", [pictures["detect_anomaly"], "--drawn", 100, "--epochs", 10000], "epoch   2"),
        ("lstm", ["--samples", 200, "--epochs", 10**5], "epoch 2/"),
        ("house_prices", ["--houses", 200, "--epochs", 10**5, "--lr", 1e-6], "epoch 2/"),
        ("char_lm", [text, *SMALL_TEXT, "--steps", 20000], "step  2000"),
        ("char_lm", [text, *SMALL_TEXT, "--steps", 1, "--write", LONG], "step "),
        ("image_classification", ["--images", 60, "--epochs", 10000], "epoch   1"))
    for name, flags, at in programs:
        for send in (signal.SIGINT, signal.SIGTERM)[:2 if name == "lstm" else 1]:
            ended, lines = interrupt(folder, name, flags, at, send)
            expect(ended == 128 + send and lines[-1].startswith("interrupted; "), f"{name}: exit {ended} {lines[-2:]}")
    expect(not any(picture.exists() for picture in pictures.values()), "no picture was begun")


def expect_same(folder, name, one, other):
    newest = [sorted((folder / part).glob("model-*.npz"))[-1] for part in (one, other)]
    expect(newest[0].name == newest[1].name and newest[0].read_bytes() == newest[1].read_bytes(), f"{name}: {newest} differ")


def check_saved(folder):
    """With --save: a checkpoint, no draft, and the same command comes to what a run without a stop comes to."""
    text = write_text(folder)
    programs = (
        ("char_lm", [text, *SMALL_TEXT, "--steps", 900, "--write", 20, "--temperature", 0.1], "step   180"),
        ("lstm", ["--samples", 1000, "--epochs", 6, "--length", 8], "epoch 2/"),
        ("house_prices", ["--houses", 1000, "--epochs", 8, "--lr", 0.01], "epoch 2/"),
        ("image_classification", ["--images", 96, "--epochs", 4, "--batch", 8], "epoch   1"))
    for name, flags, at in programs:
        saved = [folder / f"{name}-{part}" for part in ("whole", "stopped")]
        whole = succeeds(run(name, *flags, "--device", device(), "--save", saved[0]), name)
        ended, lines = interrupt(folder, name, [*flags, "--save", saved[1]], at)
        expect(ended == 130 and f"the same command goes on from what is in {saved[1]}" in lines[-1], f"{name}: {ended} {lines[-2:]}")
        expect(all(path.name.startswith("model-") for path in saved[1].iterdir()), f"{name}: {list(saved[1].iterdir())}")
        rest = succeeds(run(name, *flags, "--device", device(), "--save", saved[1]), f"{name} goes on")
        expect_same(folder, name, *saved)
        expect(rest.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1], f"{name}: its last line", rest)
        expect(len(rest.stdout) < len(whole.stdout) or "going on after" in rest.stdout, f"{name} begins anew", rest)
    (folder / "file").write_text("")
    refused = run("lstm", "--save", folder / "file")
    expect(refused.returncode == 1 and "--save" in refused.stderr and "cannot be made" in refused.stderr, "no folder", refused)


def check_resume(folder):
    ended, lines = interrupt(folder, "resume", [folder / "stopped", "--epochs", 12], "epoch 3/")
    expect(ended == 130 and "the same command goes on" in lines[-1], f"exit {ended} {lines[-2:]}")
    expect({path.suffix for path in (folder / "stopped").iterdir()} == {".npz", ".csv"}, "no draft is left")
    rest = succeeds(run("resume", folder / "stopped", "--epochs", 12, "--device", device()), "it goes on")
    whole = succeeds(run("resume", folder / "whole", "--epochs", 12, "--device", device()), "without a stop")
    expect("going on after" in rest.stdout and rest.stdout.splitlines()[-2:] == whole.stdout.splitlines()[-2:], "the same", rest)
    rows = [(folder / name / "figures.csv").read_bytes() for name in ("whole", "stopped")]
    expect(rows[0] == rows[1], f"rows of figures: {rows}")


if __name__ == "__main__":
    harness.main(globals())
