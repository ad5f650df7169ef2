#!/usr/bin/env python3
"""The samples of networks on text and images: what they learn, write, and refuse. See harness.py."""
import re

import deeplab_weights
import harness
from harness import device, expect, run, succeeds
from images import jpeg, png, png_palette, png_rows


def check_char_lm(folder):
    text = folder / "text"
    text.write_text("the cat sat on the mat. " * 60)
    small = ["--units", 16, "--heads", 2, "--layers", 1, "--length", 12, "--batch", 8, "--device", device()]
    result = run("char_lm", text, *small, "--steps", 120, "--lr", 0.02, "--write", 48, "--temperature", 0.1)
    expect(result.returncode == 0, "char_lm", result)
    losses = [float(found) for found in re.findall(r"loss ([0-9.]+)", result.stdout)]
    expect(len(losses) == 10 and losses[-1] < losses[0] / 3, f"losses {losses}", result)
    expect("the mat. the cat sat" in result.stdout.split("loss")[-1].replace("\n", ""), "what it writes", result)
    again = run("char_lm", text, *small, "--steps", 120, "--lr", 0.02, "--write", 48, "--temperature", 0.1)
    expect(again.stdout == result.stdout, "the same seed, the same text", again)
    slowly = run("char_lm", text, *small, "--steps", 120, "--lr", 0.02, "--write", 48, "--temperature", 0.1, "--recompute")
    expect(slowly.stdout == result.stdout, "keys and values kept or not, the same text", slowly)
    mixed = run("char_lm", text, *small, "--steps", 120, "--lr", 0.02, "--write", 0, "--amp", "float16")
    losses = [float(found) for found in re.findall(r"loss ([0-9.]+)", mixed.stdout)]
    expect(mixed.returncode == 0 and len(losses) == 10 and losses[-1] < losses[0] / 3, f"float16: {losses}", mixed)
    sources = folder / "sources"
    sources.mkdir()
    (sources / "a.h").write_text("int a;\n" * 8)
    (sources / "b.o").write_bytes(bytes(range(256)))
    result = run("char_lm", sources, *small, "--steps", 1, "--write", 0)
    expect(result.returncode == 0 and "56 characters, 7 different ones" in result.stdout, "a folder", result)
    (folder / "none").mkdir()
    (folder / "none" / "b.o").write_bytes(b"no source")
    for arguments, word in (([folder / "absent"], "absent"), ([sources, "--length", 56], "too few"),
                            ([folder / "none"], "no file that ends in .h, .cpp or .md")):
        result = run("char_lm", *arguments, "--device", device())
        expect(result.returncode == 1 and word in result.stderr, f"char_lm {arguments}", result)
    for flag, value in (("--steps", 0), ("--temperature", 0), ("--heads", "x")):
        expect(run("char_lm", text, flag, value).returncode == 2, f"char_lm {flag} {value}")
    result = run("char_lm", text, "--units", 10, "--heads", 3, "--device", device())
    expect(result.returncode == 1 and "do not divide" in result.stderr, "heads that do not divide", result)


def check_image_classification(folder):
    result = run("image_classification", "--device", device())
    expect(result.returncode == 0 and "4 classes, 288 images" in result.stdout, "image_classification", result)
    losses = [float(found) for found in re.findall(r"loss ([0-9.]+)", result.stdout)]
    accuracy = float(result.stdout.split("validation accuracy: ")[-1])
    expect(len(losses) == 15 and losses[-1] < losses[0] / 2 and accuracy > 0.7, f"losses {losses}, {accuracy}", result)
    for name, shade in (("dark", 20), ("light", 220)):
        (folder / "own" / name).mkdir(parents=True)
        for i in range(12):
            rows = [[shade + (x * i + y) % 9 for x in range(3 * (20 + i))] for y in range(30 - i)]
            (folder / "own" / name / f"{i}.png").write_bytes(png(20 + i, 30 - i, 2, rows))
    (folder / "own" / "dark" / "3.png").write_bytes(b"no image")
    own = ["--data", folder / "own", "--device", device(), "--batch", 4, "--size", 16, "--epochs", 2]
    result = run("image_classification", *own)
    expect(result.returncode == 0 and "1 damaged files" in result.stdout, "a folder of one's own", result)
    expect(run("image_classification", *own).stdout == result.stdout, "the same seed, the same training", result)
    succeeds(run("image_classification", *own, "--amp", "bfloat16"), "in bfloat16")
    (folder / "cifar").mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (folder / "cifar" / f"{name}.bin").write_bytes(bytes(i * 7 % 10 if i % 3073 == 0 else i % 251 for i in range(3 * 3073)))
    result = run("image_classification", "--cifar", folder / "cifar", *own[2:])
    expect(result.returncode == 0 and "10 classes, 15 images to train on, 3 to validate" in result.stdout, "CIFAR-10", result)
    for arguments, word in ((["--data", folder / "absent"], "absent"), (["--cifar", folder / "absent"], "absent"), (["--model", "absentnet"], "mobilenet0.25"),
                            (["--images", 8], "too few")):
        result = run("image_classification", *arguments, "--device", device())
        expect(result.returncode == 1 and word in result.stderr, f"image_classification {arguments}", result)
    expect(run("image_classification", "--size", 4).returncode == 2, "a size that is too small")


def check_segmentation(folder):
    small = ["--size", 16, "--channels", 4, "--batch", 4, "--device", device()]
    picture = folder / "seen.png"
    result = run("segmentation", picture, *small, "--steps", 60)
    expect(result.returncode == 0, "segmentation", result)
    losses = [float(found) for found in re.findall(r"loss ([0-9.]+)", result.stdout)]
    right = [float(found) for found in re.findall(r"([0-9.]+) % of pixels right", result.stdout)]
    expect(len(losses) == 5 and losses[-1] < losses[0] * 0.8, f"losses {losses}", result)
    expect(len(right) == 1 and right[0] > 60, f"{right} % of pixels", result)
    rows = png_rows(picture.read_bytes(), 3)
    expect(len(rows) == 4 * 16 and all(len(row) == 3 * 3 * 16 for row in rows), "four pictures beside two masks")
    colours = {tuple(row[at:at + 3]) for row in rows for at in range(3 * 16, 3 * 48, 3)}
    expect(colours <= {(0, 0, 0), (240, 160, 40), (60, 140, 240)} and len(colours) > 1, f"masks of {colours}")
    again = folder / "again.png"
    run("segmentation", again, *small, "--steps", 60)
    expect(again.read_bytes() == picture.read_bytes(), "the same seed, the same picture")
    result = run("segmentation", picture, "--size", 20, "--steps", 1, "--device", device())
    expect(result.returncode == 1 and "8 does not divide" in result.stderr, "a size that does not divide", result)
    result = run("segmentation", folder / "none" / "a.png", *small, "--steps", 1)
    expect(result.returncode == 1 and "a.png" in result.stderr, "a file that cannot be written", result)
    expect("step" not in result.stdout, "it is refused before training", result)
    expect(run("segmentation", folder / "x.jpg", *small).returncode == 2, "PNG data under another name")
    for flag, value in (("--steps", 0), ("--size", 4), ("--lr", "x")):
        expect(run("segmentation", picture, flag, value).returncode == 2, f"segmentation {flag} {value}")


def check_segmentation_masks(folder):
    """Left is red, right is blue: colours that change places, or weights that do, give another mask."""
    width, height = 96, 64
    image, mask, weights = folder / "a.png", folder / "mask.png", folder / "deeplabv3_resnet50.safetensors"
    image.write_bytes(png(width, height, 2, [[255, 0, 0] * (width // 2) + [0, 0, 255] * (width // 2)] * height))
    deeplab_weights.write(weights, said=15)
    small = ["--image", image, "--size", 64, "--device", device()]
    result = run("segmentation", mask, "--model", "deeplabv3", "--weights", weights, *small)
    expect(result.returncode == 0 and "random" not in result.stdout, "a mask by weights", result)
    found = re.findall(r"^ *(\d+) ([a-z]+) +([0-9.]+) % of pixels$", result.stdout, re.MULTILINE)
    expect({(number, name) for number, name, _ in found} == {("15", "person"), ("0", "background")}, f"{found}", result)
    expect(abs(sum(float(part) for *_, part in found) - 100) < 0.02, f"parts of {found}", result)
    rows = png_rows(mask.read_bytes(), 1)
    expect(len(rows) == height and all(len(row) == width for row in rows), "a mask of the image's size")
    expect(all(set(row[:32]) == {15} and set(row[64:]) == {0} for row in rows), "person on the left, ground on the right")
    share = sum(row.count(15) for row in rows) / (width * height)
    expect(f"{100 * share:.2f} % of pixels" in result.stdout, f"{share} of the mask is person", result)
    palette = png_palette(mask.read_bytes())
    expect(len(palette) == 21 and palette[:4] == [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0)], f"{palette}")
    expect(palette[15] == (192, 128, 128) and palette[20] == (0, 64, 128), f"Pascal VOC's colours: {palette}")

    half = run("segmentation", folder / "half.png", "--model", "deeplabv3", "--weights", weights, *small, "--size", 32)
    expect(half.returncode == 2, "a flag twice", half)
    half = run("segmentation", folder / "half.png", "--model", "deeplabv3", "--weights", weights, *small[:2], "--size", 32, *small[4:])
    expect(half.returncode == 0 and "seen as 48 x 32" in half.stdout, "seen smaller", half)
    rows = png_rows((folder / "half.png").read_bytes(), 1)
    expect(len(rows) == height and all(len(row) == width and row[0] == 15 and row[-1] == 0 for row in rows), "and enlarged")

    result = run("segmentation", folder / "random.png", "--model", "deeplabv3_mobilenet_v3_large", *small)
    expect(result.returncode == 0 and "the weights are random" in result.stdout, "without weights", result)
    again = run("segmentation", folder / "again.png", "--model", "deeplabv3_mobilenet_v3_large", *small)
    expect(again.returncode == 0, "again", again)
    expect((folder / "again.png").read_bytes() == (folder / "random.png").read_bytes(), "the same seed, the same mask")
    check_segmentation_refusals(folder, weights, small)


def check_segmentation_refusals(folder, weights, small):
    (folder / "torn.png").write_bytes((folder / "a.png").read_bytes()[:-60])
    (folder / "grey.jpg").write_bytes(jpeg(24, 16, [[10 * y for _ in range(24)] for y in range(16)]))
    mask, model = folder / "refused.png", ["--model", "deeplabv3"]
    grey = ["--image", folder / "grey.jpg", *small[2:]]
    result = run("segmentation", folder / "grey.png", "--model", "fcn", *grey)
    expect(result.returncode == 0 and "24 x 16 pixels, seen as 96 x 64" in result.stdout, "a grey JPEG", result)
    for arguments, word in ((["--image", folder / "absent.png"], "absent.png"), (["--image", folder / "torn.png"], "torn.png"),
                            ([*grey, "--weights", folder / "absent.npz"], "absent.npz"),
                            ([*grey, "--weights", folder / "torn.png"], "torn.png"),
                            ([*grey, "--weights", weights, "--classes", 5], "deeplabv3_resnet50.safetensors")):
        result = run("segmentation", mask, *model, *arguments)
        expect(result.returncode == 1 and word in result.stderr, f"segmentation {arguments}", result)
    for arguments, word in ((model, "--image"), ([*model, *grey, "--steps", 3], "--steps"), (grey, "--image"),
                            (["--weights", weights], "--weights"), (["--model", "resnet"], "--model"),
                            ([*model, *grey, "--classes", 257], "--classes")):
        result = run("segmentation", mask, *arguments)
        expect(result.returncode == 2 and word in result.stderr, f"segmentation {arguments}", result)
    expect(not mask.exists(), "nothing is written")


if __name__ == "__main__":
    harness.main(globals())
