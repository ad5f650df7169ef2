#!/usr/bin/env python3
"""What the training samples save: where, when, and that a run goes on from it exactly. See harness.py."""
import ast
import fcntl
import gzip
import io
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import termios
import time
import zipfile

import harness
from harness import device, expect, interrupted_run, succeeds, train, train_command, write_dataset

# What the clock says, which no two runs share; the settings name --epochs, which may differ.
TIMES = tuple(f"@handler.7:samples.{name}.npy" for name in ("seconds", "history", "settings"))


def members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def values(content):
    """The numbers of a one-dimensional .npy of float64 or int64."""
    stream = io.BytesIO(content)
    stream.read(8)
    header = ast.literal_eval(stream.read(struct.unpack("<H", stream.read(2))[0]).decode())
    count = header["shape"][0]
    return struct.unpack(f"<{count}{'d' if header['descr'] == '<f8' else 'q'}", stream.read())


def history(path):
    """Epochs without seconds and images/s."""
    numbers = values(members(path)["@handler.7:samples.history.npy"])
    return [numbers[i:i + 5] for i in range(0, len(numbers), 7)]


def losses(result):
    return re.findall(r"^loss (\d+) (\S+)$", result.stdout, re.MULTILINE)


def expect_same(one, other, what):
    a, b = members(one), members(other)
    expect(a.keys() == b.keys(), f"{what}: {a.keys() ^ b.keys()}")
    different = [name for name in a if name not in TIMES and a[name] != b[name]]
    expect(not different, f"{what}: {different} differ")
    expect(history(one) == history(other), f"{what}: {history(one)} is not {history(other)}")


# 512 images: the last batch is smaller; dropout, shuffling. One worker: a convolution's sum over a batch follows how many
# threads oneDNN was granted, which depends on what else runs.
TORCH = ("cnn", ["--model", "torch", "--batch-size", 100, "--threads", 1])
MLP = ("mlp", ["--optimizer", "sgd", "--batch-size", 48, "--final-lr", 1, "--weight-decay", "1e-3"])


def check_resume(folder):
    """3 + 3 epochs are 6: parameters, optimizer, random numbers, loader and figures, to the last bit."""
    write_dataset(folder)
    for name, flags in (TORCH, MLP):
        threads = flags[-2:] if "--threads" in flags else []
        whole, half, rest = (folder / f"{name}-{part}.npz" for part in ("whole", "half", "rest"))
        straight = succeeds(train(name, folder, *flags, "--epochs", 6, "--save", whole, "--losses", 1000), "six epochs")
        first = succeeds(train(name, folder, *flags, "--epochs", 3, "--save", half, "--losses", 1000), "three epochs")
        second = succeeds(train(name, folder, "--resume", half, *threads, "--epochs", 6, "--save", rest, "--losses", 1000), "the rest")
        expect(losses(straight) == losses(first) + losses(second), f"{name}: the losses", second)
        expect_same(whole, rest, f"{name}: 3 + 3 epochs")
        expect("--epochs was" not in second.stdout, "with a constant learning rate nothing hangs on --epochs", second)
        expect("epoch 4/6" in second.stdout and "epoch 3/" not in second.stdout, "it goes on with the fourth", second)


def check_resume_longer(folder):
    """A falling learning rate follows --epochs: who changes it is told; who does not is not."""
    write_dataset(folder)
    saved = folder / "net.npz"
    succeeds(train("mlp", folder, "--epochs", 1, "--final-lr", "0.5", "--save", saved), "one epoch")
    for epochs, told in ((1, False), (2, True)):
        result = succeeds(train("mlp", folder, "--resume", saved, "--epochs", epochs), f"going on to {epochs}")
        expect(("--epochs was 1, now it is 2: with --final-lr 0.5" in result.stdout) == told, f"told: {told}", result)


def check_resume_midway(folder):
    """After Ctrl-C in the midst of an epoch: exactly the batches that were left, and all later ones."""
    write_dataset(folder)
    for name, flags in (TORCH, MLP):
        threads = flags[-2:] if "--threads" in flags else []
        whole, stopped = folder / f"{name}-whole.npz", folder / f"{name}-stopped.npz"
        succeeds(train(name, folder, *flags, "--epochs", 3, "--save", whole), "without a stop")
        command, stops = train_command(name, folder, *flags, "--epochs", 3, "--log-every", 0, "--save", stopped), []
        for at in ("epoch 1/3  step 2/", "epoch 2/3  step 3/"):
            code, lines = interrupted_run(command, at)
            expect(code == 130, f"Ctrl-C: {code} {lines[-3:]}")
            steps = values(members(stopped)["@progress.npy"])[5]
            again = succeeds(train(name, folder, "--resume", stopped, *threads, "--log-every", 0, "--save", stopped), "going on")
            an_epoch = 6 if name == "cnn" else 11
            expect(steps % an_epoch == 0 or f"  step {steps % an_epoch + 1}/" in again.stdout, f"it goes on after step {steps}",
                   again)
            stops.append(steps % an_epoch)
            expect_same(whole, stopped, f"{name}: stopped after {steps} steps")
        expect(name == "mlp" or any(stops), f"some stop was in the midst of an epoch: {stops}")


def check_resume_refused(folder):
    """Other flags than the file's: the message names the flag and both values."""
    write_dataset(folder)
    saved = folder / "net.npz"
    succeeds(train("cnn", folder, "--model", "tf", "--epochs", 1, "--batch-size", 64, "--save", saved), "saving")
    for flag, value, made_with in (("--batch-size", "32", "64"), ("--model", "torch", "tf"), ("--lr", "0.5", "0.001"),
                                   ("--optimizer", "sgd", "adam"), ("--seed", "2", "1"), ("--final-lr", "0.5", "1")):
        result = train("cnn", folder, "--resume", saved, flag, value)
        expect(result.returncode == 1 and f"made with {flag} {made_with}, this run has {flag} {value}" in result.stderr,
               f"{flag} {value}", result)
    succeeds(train("cnn", folder, "--resume", saved, "--batch-size", 64, "--epochs", 1), "the same flags again")
    result = train("mlp", folder, "--resume", saved)
    expect(result.returncode == 1 and "made with --model tf, this run has --model mlp" in result.stderr, "another model", result)
    result = train("cnn", folder, "--resume", folder / "absent.npz")
    expect(result.returncode == 1 and "absent.npz" in result.stderr, "a file that is not there", result)
    other = folder / "fewer"
    other.mkdir()
    write_dataset(other, train=500)
    result = train("cnn", other, "--resume", saved, "--epochs", 2)
    expect(result.returncode == 1 and f"--resume {saved}: was trained on other images (512; here" in result.stderr
           and "--data FOLDER" in result.stderr, "other images", result)
    for stem in ("train-labels-idx1", "train-images-idx3"):
        shutil.copytree(folder, folder / stem, ignore=shutil.ignore_patterns("fewer", "train-*-idx?"))
        changed = folder / stem / f"{stem}-ubyte.gz"
        content = bytearray(gzip.decompress(changed.read_bytes()))
        content[-1 if "labels" in stem else 100] ^= 1
        changed.write_bytes(gzip.compress(content))
        result = train("cnn", folder / stem, "--resume", saved, "--epochs", 2)
        expect(result.returncode == 1 and "trained on other images; --data" in result.stderr, f"other {stem}", result)
    perceptron = folder / "mlp.npz"
    succeeds(train("mlp", folder, "--epochs", 1, "--batch-size", 512, "--save", perceptron), "another program's")
    result = train("cnn", folder, "--resume", perceptron)
    expect(result.returncode == 1 and "is a checkpoint of the network 'mlp'" in result.stderr, "another program's", result)
    for steps, word in ((-5, "'@progress'"), (3, "its 3 steps")):
        with zipfile.ZipFile(folder / "steps.npz", "w") as file:
            for name, content in members(perceptron).items():
                counts = struct.pack("<9q", 0, steps, 0, 1, 0, steps, 0, 1, 0)
                file.writestr(name, content[:-72] + counts if name == "@progress.npy" else content)
        result = train("mlp", folder, "--resume", folder / "steps.npz", "--epochs", 4)
        expect(result.returncode == 1 and "steps.npz" in result.stderr and word in result.stderr
               and "images, on" not in result.stdout, f"{steps} steps", result)
    plain = folder / "plain.npz"
    with zipfile.ZipFile(plain, "w") as file:
        for name, content in members(saved).items():
            if not name.startswith("@"):
                file.writestr(name, content)
    result = train("cnn", folder, "--resume", plain)
    expect(result.returncode == 1 and "--load takes" in result.stderr, "parameters alone", result)
    succeeds(train("cnn", folder, "--model", "tf", "--load", plain, "--evaluate"), "--load takes them")


def check_load(folder):
    write_dataset(folder)
    saved = folder / "net.npz"
    result = succeeds(train("mlp", folder, "--epochs", 5, "--batch-size", 32, "--save", saved), "saving")
    accuracy = result.stdout.strip().split("\n")[-1]
    test_alone = folder / "test-alone"
    shutil.copytree(folder, test_alone, ignore=shutil.ignore_patterns("train-*", "test-alone"))
    for flag in ("--load", "--resume"):
        result = succeeds(train("mlp", test_alone, "--evaluate", flag, saved), "judging needs no training images")
        expect(result.stdout.strip().split("\n")[-1] == accuracy and "epoch" not in result.stdout, "the same accuracy", result)
    result = succeeds(train("mlp", folder, "--epochs", 1, "--batch-size", 32, "--losses", 1, "--load", saved), "loading")
    expect(float(losses(result)[0][1]) < 0.7, "training goes on where it stopped", result)
    result = train("cnn", folder, "--epochs", 1, "--load", saved)
    expect(result.returncode == 1 and "net.npz" in result.stderr and "of another network" in result.stderr, "of another network", result)
    saved.write_bytes(saved.read_bytes()[:1000])
    for flag in ("--load", "--resume"):
        result = train("mlp", folder, flag, saved)
        expect(result.returncode == 1 and "net.npz" in result.stderr, "truncated parameters", result)


def check_interrupt(folder):
    write_dataset(folder)
    for send, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        for save in ([], ["--save", folder / f"stopped-{code}.npz"]):
            command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 32, *save)
            ended, lines = interrupted_run(command, "epoch 2/", send)
            expect(ended == code, f"the exit code after signal {send}: {ended} {lines[-3:]}")
            left = f"--resume {save[1]} goes on" if save else "nothing was saved (--save FILE does)"
            expect("interrupted" in lines[-1] and left in lines[-1], "it is acknowledged: " + lines[-1])
            expect((folder / f"stopped-{code}.npz").exists() == bool(save), "what --save names is saved")
        expect("saved to" in lines[-2], "saving is said: " + lines[-2])


def check_hangup(folder):
    """Under nohup a terminal that goes is nothing; a terminal that goes tells twice, and a run is saved all the same."""
    write_dataset(folder)
    command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 32, "--save", folder / "net.npz")
    for ignored in (True, False):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)) as process:
            for wanted in ("epoch 2/", "epoch 4/"):
                while not process.stdout.readline().startswith(wanted):
                    expect(process.poll() is None, f"it trains, ignored: {ignored}")
                process.send_signal(signal.SIGHUP)
                if not ignored:
                    process.send_signal(signal.SIGHUP)
                    break
            if ignored:
                process.send_signal(signal.SIGINT)
            process.stdout.read()
            ended = process.wait(timeout=120)
        expect(ended == (130 if ignored else 129) and (folder / "net.npz").exists(), f"ignored: {ignored}, exit {ended}")
        (folder / "net.npz").unlink()


def check_closed_pipe(folder):
    """Where nobody reads the output any more (Ctrl-C ends `tee` too), the parameters are saved all the same."""
    write_dataset(folder)
    for name, code in (("pipe", 128 + signal.SIGPIPE), ("both", 128 + signal.SIGINT)):
        saved = folder / f"{name}.npz"
        command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 32, "--save", saved)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            while not process.stdout.readline().startswith("epoch 2/"):
                expect(process.poll() is None, "it trains")
            process.send_signal(signal.SIGSTOP)
            if name == "both":
                process.send_signal(signal.SIGINT)
            process.stdout.close()
            process.send_signal(signal.SIGCONT)
            ended = process.wait(timeout=120)
        expect(ended == code and saved.exists(), f"{name}: exit {ended}, saved: {saved.exists()}")
        succeeds(train("mlp", folder, "--evaluate", "--resume", saved), "what was saved is whole")
    with open("/dev/full", "w") as full:
        command = train_command("mlp", folder, "--epochs", 3, "--losses", 1000, "--save", folder / "full.npz")
        ended = subprocess.run(command, stdout=full, stderr=full, check=False).returncode
    expect(ended == 1 and (folder / "full.npz").exists(), f"a full disk under the output: exit {ended}")


def wait_until_stuck(process):
    """Until the process has filled the pipe that nobody reads."""
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    held, same = -1, 0
    while same < 20:
        time.sleep(0.05)
        expect(process.poll() is None, f"it goes on until it is stopped: {process.returncode}")
        now = struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0\0\0\0"))[0]
        held, same = now, same + 1 if now == held and now > 2048 else 0


def caught(pid, number):
    line = re.search(r"^SigCgt:\s*([0-9a-f]+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(line.group(1), 16) >> (number - 1) & 1


def check_second_signal(folder):
    """A second signal of either kind ends the process at once: here one that is stuck, writing to a full pipe."""
    write_dataset(folder)
    for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT)):
        command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 32, "--log-every", 0)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            wait_until_stuck(process)
            expect(caught(process.pid, first) and process.poll() is None, "the first signal will be caught")
            process.send_signal(first)
            while caught(process.pid, first):
                pass
            expect(process.poll() is None, "the first signal does not end it")
            process.send_signal(second)
            try:
                ended = process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                ended = "nothing"
            expect(ended == -second, f"signal {first}, then {second}: {ended}")


def check_target(folder):
    """What cannot be written is refused before training; what is there stays."""
    write_dataset(folder)
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    for place, word in ((folder, "folder"), (folder / "nowhere" / "net.npz", "no folder"), (fifo, "device"),
                        ("/dev/null", "device"), ("/proc/net.npz", "no file can be made")):
        result = train("mlp", folder, "--epochs", 1000, "--save", place)
        expect(result.returncode == 1 and f"--save {place}" in result.stderr and word in result.stderr, f"{place}", result)
        expect("epoch" not in result.stdout, f"{place} is refused before training", result)
    expect(pathlib.Path("/dev/null").is_char_device() and fifo.is_fifo(), "devices are still devices")
    long = folder / ("n" * 240 + ".npz")  # there is room for it, but not for the draft's name
    result = train("mlp", folder, "--epochs", 1000, "--save", long)
    expect(result.returncode == 1 and "too long" in result.stderr and "epoch" not in result.stdout, "a long name", result)
    long = folder / ("n" * 227 + ".npz")
    succeeds(train("mlp", folder, "--epochs", 1, "--save", long), "a name just short enough")
    kept = folder / "kept.npz"
    kept.write_bytes(b"good")
    result = train("mlp", folder / "nowhere", "--save", kept)
    expect(result.returncode == 1 and kept.read_bytes() == b"good", "an existing file is not touched by the check", result)
    if os.geteuid() != 0:  # root may write anything
        kept.chmod(0o400)
        result = train("mlp", folder, "--epochs", 1000, "--save", kept)
        expect(result.returncode == 1 and "cannot be written" in result.stderr, "a file without permission", result)


def train_and_remove(folder, out, cwd, temporary, name="net.npz"):
    """Trains with --save into `out`, which is removed when the first epoch is over."""
    command = train_command("mlp", folder, "--epochs", 2, "--batch-size", 64, "--save", out / name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd,
                          env={**os.environ, "TMPDIR": str(temporary)}) as process:
        text = ""
        for line in process.stdout:
            text += line
            if "images, on" in line:
                shutil.rmtree(out)
        return subprocess.CompletedProcess(command, process.wait(timeout=120), text, "")


def check_rescue(folder):
    """Where the parameters cannot be written at the end, they go to the current folder, then to TMPDIR."""
    data, temporary = folder / "data", folder / "tmp"
    for made in (data, temporary):
        made.mkdir()
    write_dataset(data)
    for cwd_is_there in (True, False):
        out, cwd = folder / "out", folder / "cwd"
        out.mkdir()
        cwd.mkdir(exist_ok=True)
        (cwd / "net-rescued.npz").write_bytes(b"another's")
        result = train_and_remove(data, out, cwd if cwd_is_there else out, temporary)
        where = cwd / "net-rescued-2.npz" if cwd_is_there else temporary / "net-rescued.npz"
        expect(result.returncode == 1 and where.name in result.stdout and "--save failed" in result.stdout, "it is said", result)
        expect(where.exists(), f"{where} holds the parameters", result)
        expect((cwd / "net-rescued.npz").read_bytes() == b"another's", "no other file is overwritten")
        succeeds(train("mlp", data, "--evaluate", "--load", where), "what was rescued can be used")
    (folder / "out").mkdir(exist_ok=True)
    result = train_and_remove(data, folder / "out", temporary, temporary, "n" * 227 + ".npz")
    expect(result.returncode == 1 and (temporary / "rescued.npz").exists(), "a name too long for the longer one", result)


def check_full_disk(folder):
    """A write that fails half-way leaves the last good file, and says so."""
    write_dataset(folder)
    saved = folder / "net.npz"
    succeeds(train("mlp", folder, "--epochs", 1, "--batch-size", 64, "--save", saved), "a good file")
    good = saved.read_bytes()
    before = sorted(folder.iterdir())

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    for flags in ([], ["--save-every", 1]):
        result = train("mlp", folder, "--resume", saved, "--epochs", 3, "--save", saved, *flags, preexec_fn=small_files,
                       cwd=folder, env={**os.environ, "TMPDIR": str(folder)})
        expect(result.returncode == 1 and "--save failed" in result.stderr and "lost" in result.stderr, "it is said", result)
        expect(("training goes on" in result.stderr) == bool(flags) and "epoch 3/3" in result.stdout, "training ends", result)
        expect(saved.read_bytes() == good and sorted(folder.iterdir()) == before, "the good file stays, alone", result)
    command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 64, "--save", folder / "new.npz")
    ended, lines = interrupted_run(command, "epoch 2/", preexec_fn=small_files, cwd=folder,
                                   env={**os.environ, "TMPDIR": str(folder)})
    expect(ended == 1 and lines[-1].strip() == "interrupted; nothing was saved", f"Ctrl-C: {ended} {lines[-3:]}")


def check_save_every(folder):
    """The file of --save is there after every N epochs: a process that is killed has not lost everything."""
    write_dataset(folder)
    saved = folder / "net.npz"
    command = train_command("mlp", folder, "--epochs", 100000, "--batch-size", 64, "--save", saved, "--save-every", 2)
    code, lines = interrupted_run(command, "epoch 6/", signal.SIGKILL)
    expect(code == -signal.SIGKILL and saved.exists(), f"killed: {lines[-2:]}")
    done = len(history(saved))
    expect(done >= 4 and done % 2 == 0, f"{done} epochs were saved")
    result = succeeds(train("mlp", folder, "--resume", saved, "--epochs", done + 1), "going on")
    expect(f"epoch {done + 1}/{done + 1}" in result.stdout, "with the next epoch", result)


if __name__ == "__main__":
    harness.main(globals())
