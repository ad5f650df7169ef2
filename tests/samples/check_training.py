#!/usr/bin/env python3
"""The samples that train: what they print and return, and what they refuse. See harness.py."""
import gzip
import os
import re
import struct
import zipfile

import harness
from harness import PROGRAMS, expect, idx, run, succeeds, train, write_dataset


def check_training(folder):
    write_dataset(folder)
    for name, arguments in (("mlp", ["--epochs", 6, "--batch-size", 64]),
                            ("cnn", ["--model", "tf", "--epochs", 2]),
                            ("cnn", ["--model", "torch", "--epochs", 1, "--optimizer", "sgd", "--lr", "0.02"])):
        result = train(name, folder, *arguments, "--losses", 3)
        last = result.stdout.strip().split("\n")[-1]
        expect(result.returncode == 0 and re.fullmatch(r"test accuracy: \d\.\d{4}", last), f"{name} {arguments}", result)
        losses = re.findall(r"^loss (\d+) ([0-9.e+-]+)$", result.stdout, re.MULTILINE)
        expect([step for step, _ in losses] == ["1", "2", "3"], "the first losses", result)
        epochs = re.findall(r"^epoch \d/\d  loss [\d.]+  accuracy [\d.]+  learning rate [\d.e-]+  \d+ images/s  "
                            r"validation loss [\d.]+  accuracy [\d.]+  \d+:\d\d elapsed", result.stdout, re.MULTILINE)
        expect(str(len(epochs)) == str(arguments[arguments.index("--epochs") + 1]), "a line an epoch", result)
        if name == "mlp":
            expect(float(last.split()[-1]) > 0.9, "the network learns", result)
            again = train(name, folder, *arguments, "--losses", 3)
            expect(losses == re.findall(r"^loss (\d+) ([0-9.e+-]+)$", again.stdout, re.MULTILINE), "one seed", again)


def without_times(text):
    return re.sub(r"\d+ images/s|\d+:\d\d(:\d\d)?|\d+ ms/step", "", text)


def check_hybrid(folder):
    """As graphs, training prints the same figures, and leaves the same file; batches of two sizes, dropout, judging."""
    write_dataset(folder)
    watched = ["--losses", 1000, "--log-every", 0, "--save", "net.npz"]
    for name, arguments in (("mlp", ["--epochs", 3, "--batch-size", 60, "--final-lr", "0.2"]),
                            ("cnn", ["--model", "torch", "--epochs", 2, "--batch-size", 100, "--threads", 1]),
                            ("cnn", ["--model", "tf", "--epochs", 2, "--optimizer", "sgd", "--threads", 1])):
        plain, hybrid, small = (succeeds(train(name, folder, *arguments, *watched, *flags, cwd=folder), f"{name} {arguments} {flags}")
                                for flags in ([], ["--hybrid"], ["--hybrid", "--memory-budget", 0.1]))
        expect(plain.stdout.count("\nloss ") >= 10, "losses are printed", plain)
        for graphs in (hybrid, small):
            expect(without_times(plain.stdout) == without_times(graphs.stdout), f"{name}: what is printed\n{plain.stdout}", graphs)
        model = arguments[:2] if name == "cnn" else []
        judged = [succeeds(train(name, folder, *model, "--evaluate", "--load", folder / "net.npz", *flags), "judging")
                  for flags in ([], ["--hybrid"])]
        expect(judged[0].stdout == judged[1].stdout and "test loss" in judged[0].stdout, f"{name}: judging", judged[1])


def check_amp(folder):
    """In half types samples learn as well; steps by hand are those of graphs, and a run that was saved goes on with the
    scale of its losses, which is in the file."""
    write_dataset(folder)
    watched = ["--final-lr", 1, "--batch-size", 64, "--losses", 1000, "--threads", 1]
    plain = succeeds(train("mlp", folder, *watched, "--epochs", 4), "float32")
    for kind in ("bfloat16", "float16"):
        whole, hybrid = (succeeds(train("mlp", folder, *watched, "--epochs", 4, "--amp", kind, *flags), f"{kind} {flags}")
                         for flags in ([], ["--hybrid"]))
        expect(float(whole.stdout.split()[-1]) >= 0.97, f"{kind} learns", whole)
        expect(whole.stdout.count("\nloss ") == 32 and "loss nan" not in whole.stdout, f"{kind}: losses", whole)
        expect(without_times(whole.stdout) == without_times(hybrid.stdout), f"{kind} as graphs", hybrid)
        expect(re.findall("loss.*", whole.stdout) != re.findall("loss.*", plain.stdout), f"{kind} is another type", whole)
        succeeds(train("mlp", folder, *watched, "--epochs", 2, "--amp", kind, "--save", folder / "net.npz"), "the first half")
        resumed = succeeds(train("mlp", folder, *watched[4:], "--epochs", 4, "--resume", folder / "net.npz"), "the other half")
        expect(re.findall(r"^loss (?:1[7-9]|[23]\d) .*", whole.stdout, re.MULTILINE) ==
               re.findall("^loss .*", resumed.stdout, re.MULTILINE), f"{kind} goes on as if it had not stopped", resumed)
        scale = "@optimizer.loss_scale.npy" in zipfile.ZipFile(folder / "net.npz").namelist()
        expect(scale == (kind == "float16"), f"{kind} has a scale: {scale}")
        with zipfile.ZipFile(folder / "net.npz") as good, zipfile.ZipFile(folder / "less.npz", "w") as less:
            for name in good.namelist():
                if name not in ("@optimizer.loss_scale.npy", "@optimizer.clean_steps.npy"):
                    less.writestr(name, good.read(name))
        lost = train("mlp", folder, "--epochs", 4, "--resume", folder / "less.npz")
        expect(lost.returncode == (1 if scale else 0) and ("less.npz: " in lost.stderr) == scale, "its scale is lost", lost)
        other = train("mlp", folder, "--epochs", 4, "--resume", folder / "net.npz", "--amp", "off")
        expect(other.returncode == 1 and f"made with --amp {kind}" in other.stderr, "another type is refused", other)
    convolved = succeeds(train("cnn", folder, "--model", "tf", "--epochs", 2, "--amp", "bfloat16"), "cnn")
    expect(float(convolved.stdout.split()[-1]) > 0.9, "a network of convolutions learns", convolved)
    expect(run("mlp", "--amp", "float8").returncode == 2, "a type that there is not")


# What a program asks for before it looks at flags.
NEEDED = {"char_lm": ["text"], "sharpen": ["in.png", "out.png"], "infer": ["network", "a.png"], "inspect": ["network"],
          "resume": ["folder"], "segmentation": ["seen.png"], "detect_anomaly": ["worst.png"]}


def check_bad_input(folder):
    for name in PROGRAMS:
        if name[0].isdigit():  # the tutorial's take no flags
            continue
        result = run(name, "--help")
        expect(result.returncode == 0 and "Usage" in result.stdout, f"{name} --help", result)
        result = run(name, *NEEDED.get(name, []), "--no-such-flag")
        expect(result.returncode == 2 and "no-such-flag" in result.stderr, f"{name}: an unknown flag", result)
    for flag, value in (("--device", "tpu"), ("--device", "gpu:99"), ("--epochs", "0"), ("--epochs", "many"),
                        ("--batch-size", "-1"), ("--lr", "-1"), ("--optimizer", "lbfgs"), ("--model", "vgg"),
                        ("--seed", "x"), ("--threads", "0"), ("--losses", "-1"), ("--precision", "low")):
        result = run("cnn", flag, value)
        expect(result.returncode == 2 and flag in result.stderr, f"cnn {flag} {value}", result)
        expect("device: device" not in result.stderr, f"cnn {flag} {value} says it once", result)


# A number that each flag refuses, and a word of the message that says what it takes.
REFUSED = (("--lr", "nan", "above 0"), ("--lr", "inf", "above 0"), ("--lr", "-1", "above 0"), ("--lr", "0", "above 0"),
           ("--epochs", "0", "1 to 100000"), ("--epochs", "2.5", "whole number from 1 to 100000"), ("--batch-size", "0", "1 to 60000"), ("--batch-size", "70000", "1 to 60000"),
           ("--momentum", "2", "[0, 1)"), ("--momentum", "nan", "[0, 1)"), ("--weight-decay", "nan", "at least 0"),
           ("--weight-decay", "-1", "at least 0"), ("--final-lr", "nan", "[0, 1]"), ("--final-lr", "2", "[0, 1]"),
           ("--threads", "-1", "1 to 1024"), ("--seed", "-1", "whole number from 0"), ("--log-every", "nan", "[0, 86400]"),
           ("--losses", "-1", "0 to 1000000"), ("--save-every", "0", "1 to 100000"))


def check_flags(folder):
    """Every number is checked, NaN too; the message names the flag, the value and the range."""
    for flag, value, wanted in REFUSED:
        result = run("mlp", "--data", folder, flag, value)
        said = result.stderr.replace(" - ", " to ")  # CLI11's ways to write a range
        expect(result.returncode == 2 and flag in said and value in said and wanted in said,
               f"mlp {flag} {value}: {wanted}", result)
    for arguments, flag in ((["--evaluate"], "--load"), (["--save-every", 2], "--save"), (["--load", "a", "--resume", "b"], "--resume"),
                            (["--evaluate", "--load", "a", "--save", "b"], "--save"), (["--save", ""], "--save: the name is empty"),
                            (["--save="], "--save"), (["--load", ""], "--load: the name is empty"),
                            (["--resume", ""], "--resume: the name is empty"), (["--report", ""], "--report: the name is empty"),
                            (["--momentum", "0.5"], "--momentum: is of --optimizer sgd")):
        result = run("mlp", "--data", folder, *arguments)
        expect(result.returncode == 2 and flag in result.stderr, f"mlp {arguments}", result)


def check_data_errors(folder):
    """What is wrong with the data, where it was looked for, and how to get it."""
    def refused(place, *words, environment=None):
        arguments = ["--data", place] if place else []
        result = run("mlp", *arguments, "--epochs", 1000, env={**os.environ, **(environment or {})})
        expect(result.returncode == 1 and "epoch" not in result.stdout, f"{place}", result)
        for word in (*words, "dataset-fashion-mnist", "--data FOLDER", "SLUICE_DATA"):
            expect(word in result.stderr, f"{place}: {word}", result)

    refused(folder / "nowhere", f"--data {folder / 'nowhere'}: there is no such folder")
    said = run("mlp", "--data", folder / "nowhere").stderr
    expect(said.count("nowhere") == 1 and "options." not in said, f"said once, in the program's words: {said}")
    refused("", f"SLUICE_DATA={folder / 'nowhere'}: ", "no such folder", environment={"SLUICE_DATA": str(folder / "nowhere")})
    refused(folder, "lacks the file train-images-idx3-ubyte.gz")
    write_dataset(folder)
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                 "t10k-labels-idx1-ubyte.gz"):
        path = folder / name
        good = path.read_bytes()
        path.unlink()
        refused(folder, f"lacks the file {name}")
        for content, words in ((good[:len(good) // 2], "truncated"), (good[:20] + b"\xff" * 8 + good[28:], name),
                               (gzip.compress(b"\x01\x02\x03\x04" * 9), "not an IDX file"), (b"<html>", "not an IDX file"),
                               (b"", "header")):
            path.write_bytes(content)
            refused(folder, name, words)
        path.write_bytes(good)
    for stem, count, side, words in (("t10k", 100, 32, "training images are 28 x 28 pixels, the test images 32 x 32"),
                                     ("t10k", 0, 28, "t10k-images-idx3-ubyte holds no image"),
                                     ("train", 0, 28, "train-images-idx3-ubyte holds no image")):
        files = [folder / f"{stem}-images-idx3-ubyte.gz", folder / f"{stem}-labels-idx1-ubyte.gz"]
        good = [path.read_bytes() for path in files]
        for path, content in zip(files, (idx([count, side, side], bytes(count * side * side)), idx([count], bytes(count)))):
            path.write_bytes(gzip.compress(content))
        refused(folder, f"--data {folder}: ", words)
        for path, content in zip(files, good):
            path.write_bytes(content)
    expect(train("mlp", folder, "--epochs", 1).returncode == 0, "the good files again")


def check_divergence(folder):
    """A loss that is not finite, or far above where it began, stops training, with what to try; nothing is saved."""
    write_dataset(folder)
    saved = folder / "net.npz"
    for flags, words in ((["--optimizer", "sgd", "--lr", "1e30", "--batch-size", 16], ("the loss is", "it began at 2.")),
                         (["--lr", "30", "--batch-size", 8], ("training diverges", "the last 20 steps"))):
        result = train("mlp", folder, "--epochs", 50, *flags, "--save", saved)
        expect(result.returncode == 1 and not saved.exists(), f"{flags}: stops", result)
        for word in (*words, "step ", "Training was stopped", "--lr ", "Nothing was saved"):
            expect(word in result.stderr, f"{flags}: {word}", result)
    result = train("mlp", folder, "--epochs", 3, "--batch-size", 64, "--save", saved)
    good = saved.read_bytes()
    result = train("mlp", folder, "--epochs", 3, "--batch-size", 8, "--load", saved, "--lr", "30", "--save", saved)
    expect(result.returncode == 1 and saved.read_bytes() == good, "the last good file stays", result)
    # One step an epoch: its loss is finite, what it makes of the weights is not.
    spoilt = ["--batch-size", 512, "--optimizer", "sgd", "--lr", "1e30", "--save", saved]
    result = train("mlp", folder, *spoilt, "--epochs", 1)
    expect(result.returncode == 1 and saved.read_bytes() == good and "epoch 1: the validation loss is" in result.stderr,
           "weights that the last step spoilt are not saved", result)
    result = train("mlp", folder, *spoilt, "--epochs", 2, "--save-every", 1)
    expect(result.returncode == 1 and saved.read_bytes() == good and "Nothing was saved" in result.stderr,
           "nor in passing", result)
    with zipfile.ZipFile(saved) as whole, zipfile.ZipFile(folder / "nan.npz", "w") as file:
        for name in whole.namelist():
            content = whole.read(name)
            file.writestr(name, content[:-4] + struct.pack("<f", float("nan")) if name == "1.bias.npy" else content)
    result = train("mlp", folder, "--evaluate", "--load", folder / "nan.npz", "--report", folder / "page")
    expect(result.returncode == 1 and "the test loss is" in result.stderr, "NaN is judged a failure", result)
    page = (folder / "page" / "index.html").read_text(encoding="utf-8")
    right, wrong = re.search(r"<b>([\d.]+)%</b>", page), re.search(r"<b>(\d+)</b><span>of 100 images wrong", page)
    expect(right and wrong and float(right.group(1)) + int(wrong.group(1)) == 100, "right and wrong images are all images")
    result = train("mlp", folder, "--load", folder / "nan.npz", "--batch-size", 512, "--epochs", 1)
    expect(result.returncode == 1 and "  step 1/1  loss nan" in result.stdout and "step 1: the loss is" in result.stderr,
           "the line says what was measured", result)


if __name__ == "__main__":
    harness.main(globals())
