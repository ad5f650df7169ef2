#!/usr/bin/env python3
"""The sample serve: exported networks over TCP, to clients that know the protocol and to some that do not."""
import contextlib
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import harness
from harness import PROGRAMS, device, expect, run

CLASSES, PIXELS = 10, 28 * 28
OK, BAD_REQUEST, BUSY, FAILED = range(4)


@contextlib.contextmanager
def serving(network, *arguments):
    """The port, and what to call for the server's last words."""
    command = [str(part) for part in (PROGRAMS["serve"], network, "--device", device(), *arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        expect("serving on 127.0.0.1:" in line, f"{command} says {line!r}")

        def end():
            server.send_signal(signal.SIGINT)
            said, complaint = server.communicate(timeout=60)
            expect(server.returncode == 0 and complaint == "", f"Ctrl-C ends the server: {server.returncode} {complaint}")
            return said
        end.pid = server.pid
        try:
            yield int(line.rsplit(":", 1)[1]), end
        finally:
            if server.poll() is None:
                server.kill()


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.greeting = struct.unpack("<8sII", self.take(16))

    def take(self, count):
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                return got
            got += part
        return got

    def send(self, *samples):
        self.socket.sendall(b"".join(struct.pack(f"<I{len(sample)}f", len(sample), *sample) for sample in samples))

    def answer(self):
        status, size = struct.unpack("<II", self.take(8))
        content = self.take(size)
        return status, struct.unpack(f"<{size // 4}f", content) if status == OK else content.decode()


def image(label, seed=0):
    return [((220 if y // 2 - 2 == label else 10) + (seed * 13 + y * 5 + x * 3) % 30) / 255 for y in range(28) for x in range(28)]


def exported(folder):
    harness.write_dataset(folder)
    result = harness.train("mlp", folder, "--epochs", 4, "--batch-size", 32, "--export", folder / "mlp")
    expect(result.returncode == 0, "a network to serve", result)
    return folder / "mlp"


def check_answers(folder):
    """Every sample gets its own answer, in the order of a connection's requests, however they are cut into batches."""
    with serving(exported(folder), "--max-batch", 16, "--threads", 2) as (port, end):
        clients = [Client(port) for _ in range(3)]
        expect(clients[0].greeting == (b"SLUICE 1", PIXELS, CLASSES), f"greeting {clients[0].greeting}")
        alone = []
        for label in range(CLASSES):
            clients[0].send(image(label))
            status, values = clients[0].answer()
            expect(status == OK and max(range(CLASSES), key=values.__getitem__) == label, f"class {label}: {values}")
            alone.append(values)
        for round_ in range(3):  # all are sent before any answer is read
            for i, client in enumerate(clients):
                client.send(*(image((n + i) % CLASSES) for n in range(100)))
            for i, client in enumerate(clients):
                for n in range(100):
                    status, values = client.answer()
                    wanted = alone[(n + i) % CLASSES]
                    close = status == OK and all(abs(a - b) <= 1e-3 * (1 + abs(b)) for a, b in zip(values, wanted))
                    expect(close, f"round {round_}, client {i}, request {n}: {status} {values}, alone {wanted}")
        said = end()
        counts = re.search(r"(\d+) samples in (\d+) batches, .* 0 failed, 0 refused", said)
        expect(counts and int(counts.group(1)) == 911 and 60 <= int(counts.group(2)) <= 911, f"what it did: {said}")


def check_clients(folder):
    """What clients do wrong is told to them, and to nobody else."""
    with serving(exported(folder), "--io-threads", 1) as (port, end):
        good, odd = Client(port), Client(port)
        odd.send([1.0] * 3, image(4), [], *([[0.5]] * 600), image(5))  # more than it works at, at once
        answers = [odd.answer() for _ in range(604)]
        expect([i for i, (status, _) in enumerate(answers) if status == OK] == [1, 603], "only samples are answered")
        expect(answers[0] == (BAD_REQUEST, f"3 values were sent, a sample has {PIXELS}"), f"{answers[0]}")
        expect(answers[1][1].index(max(answers[1][1])) == 4, "a sample between wrong ones")
        odd.socket.sendall(struct.pack("<I", PIXELS)[:3])  # in pieces
        good.send(image(7))
        status, values = good.answer()
        expect(status == OK and values.index(max(values)) == 7, "another client meanwhile")
        odd.socket.sendall(struct.pack("<I", PIXELS)[3:] + struct.pack(f"<{PIXELS}f", *image(2))[:1001])
        odd.socket.sendall(struct.pack(f"<{PIXELS}f", *image(2))[1001:])
        status, values = odd.answer()
        expect(status == OK and values.index(max(values)) == 2, "a sample in pieces")
        odd.socket.sendall(struct.pack("<I", 1 << 30))
        expect(odd.answer()[0] == BAD_REQUEST and odd.take(1) == b"", "who sends no end is told, and left")
        gone = Client(port)
        gone.send(*[image(1)] * 50)
        gone.socket.close()
        good.send(image(3))
        status, values = good.answer()
        expect(status == OK and values.index(max(values)) == 3, "others go on")
        end()


def check_slow_clients(folder):
    """Who has sent all still gets its answers; who reads none is not served for ever."""
    with serving(exported(folder), "--io-threads", 1, "--max-delay", 300000, "--max-batch", 1024) as (port, end):
        half = Client(port)  # whose end comes long before its answers
        half.send(*[image(1)] * 300, [1.0])
        half.socket.shutdown(socket.SHUT_WR)
        answers = [half.answer()[0] for _ in range(301)]
        expect(answers == [OK] * 300 + [BAD_REQUEST] and half.take(1) == b"", f"answers to a closed end: {answers}")
        idle = Client(port)
        idle.socket.shutdown(socket.SHUT_WR)
        expect(idle.take(1) == b"", "who sends nothing is left")
        mute = Client(port)
        mute.socket.setblocking(False)
        sent, most, part = 0, 32 << 20, bytes(1 << 16)  # requests of no values, each answered by a line
        quiet = 0
        while quiet < 10 and sent < most:
            try:
                sent += mute.socket.send(part)
                quiet = 0
            except BlockingIOError:
                quiet += 1
                time.sleep(0.05)
        expect(sent < most, f"{sent} bytes of requests were taken from who reads no answers")
        mute.socket.settimeout(60)
        status, text = mute.answer()
        expect(status == BAD_REQUEST, "it may read its answers later")
        left = (sent // 4 - 1) * (8 + len(text))
        while left > 0 and (got := mute.socket.recv(min(left, 1 << 20))):
            left -= len(got)
        expect(left == 0, f"all but {left} bytes of them came")
        good = Client(port)
        good.send(image(7))
        expect(good.answer()[0] == OK, "others go on")
        end()


def seconds_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def check_descriptors(folder):
    """Where no more connections can be had, the server waits for some to end, without asking all the time."""
    with serving(exported(folder), "--io-threads", 1) as (port, end):
        good = Client(port)
        before = resource.prlimit(end.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(end.pid, resource.RLIMIT_NOFILE, (8, before[1]))
        waiting = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        time.sleep(0.2)
        used = seconds_of(end.pid)
        time.sleep(1)
        expect(seconds_of(end.pid) - used < 0.2, f"{seconds_of(end.pid) - used} s of its time went in a second")
        good.send(image(3))
        expect(good.answer()[0] == OK, "who is connected is served")
        resource.prlimit(end.pid, resource.RLIMIT_NOFILE, before)
        expect(all(one.recv(8) == b"SLUICE 1" for one in waiting), "who waited is connected later")
        end()


def check_bench(folder):
    """The client that measures, of another process and of its own; and what is wrong with a command line."""
    network = exported(folder)
    table = r"^ +4 +8 +200 +\d+( +\d+){4}$"
    with serving(network) as (port, end):
        result = run("serve", "--bench", "--port", port, "--connections", 4, "--window", 8, "--requests", 50)
        expect(result.returncode == 0 and re.search(table, result.stdout, re.MULTILINE), "its table", result)
        expect("all answers agree; 0 said" in result.stdout, "its answers", result)
        second = run("serve", network, "--device", device(), "--port", port)
        expect(second.returncode == 1 and str(port) in second.stderr and second.stderr.count("\n") == 1, "a port in use", second)
        end()
    result = run("serve", "--bench", "--port", port)
    expect(result.returncode == 1 and "no server listens" in result.stderr, "nobody listens", result)
    result = run("serve", network, "--bench", "--device", device(), "--connections", 4, "--window", 8, "--requests", 50,
                 "--max-delay", 100, "--max-batch", 8)
    expect(result.returncode == 0 and re.search(table, result.stdout, re.MULTILINE), "of its own", result)
    expect(re.search(r"^217 samples in ", result.stdout, re.MULTILINE), "what the server did", result)
    result = run("serve", network, "--bench", "--device", device(), "--connections", 2, "--window", 64, "--requests", 200,
                 "--max-queue", 1, "--threads", 1, "--max-batch", 1)
    expect(result.returncode == 0 and re.search(r"agree; [1-9]", result.stdout), "a full queue says so", result)
    for arguments in ((), ("--bench",), (network, "--window", 1000), (network, "--max-batch", 0)):
        expect(run("serve", *arguments).returncode == 2, f"serve {arguments}")
    result = run("serve", folder / "none", "--device", device())
    expect(result.returncode == 1 and "none.json" in result.stderr, "no such network", result)


if __name__ == "__main__":
    harness.main(globals())
