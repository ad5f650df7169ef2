#!/usr/bin/env python3
"""Peer of bench_alloc: PyTorch's caching allocator on the same sequences of sizes; what it reserves for the peak.

    python3 tests/bench/peers/torch_alloc.py [--seeds N]

`pair` is the time with Python's share in it; libtorch_bench.cpp has the one without.
"""
import argparse
import pathlib
import re
import sys
import time

import numpy
import torch

TRACE = pathlib.Path(__file__).resolve().parent.parent / "traces" / "resnet50.txt"
ROUNDS = 22  # as bench_alloc has with three blocks


def report(workload, metric, value, unit):
    print(f"{workload:<16} {'torch':<28} {metric:<18} {value:12.4f} {unit}", flush=True)


class Counted:
    """PyTorch's allocator without tensors; counts as bench_alloc does."""

    def __init__(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.stream = torch.cuda.current_stream()
        self.held = self.peak = 0

    def take(self, size):
        self.held += size
        self.peak = max(self.peak, self.held)
        return torch.cuda.caching_allocator_alloc(size, stream=self.stream), size

    def give(self, chunk):
        self.held -= chunk[1]
        torch.cuda.caching_allocator_delete(chunk[0])

    def ratio(self):
        return torch.cuda.max_memory_reserved() / self.peak


class Draw:
    """std::mt19937's raw numbers."""

    def __init__(self, seed):
        self.state = numpy.random.RandomState(seed)
        self.block, self.at = [], 0

    def __call__(self):
        if self.at == len(self.block):
            self.block = self.state.randint(0, 1 << 32, 1 << 16, dtype=numpy.uint32).tolist()
            self.at = 0
        self.at += 1
        return self.block[self.at - 1]


def random_sizes(seed):
    draw = Draw(seed)
    sizes = [1 << (9 + draw() % 18) if draw() % 2 else 1 + draw() % (1 << 24) for _ in range(4096)]
    counted, live = Counted(), []
    start = time.perf_counter()
    for _ in range(ROUNDS):
        for size in sizes:
            chunk = counted.take(size)
            if len(live) < 64:
                live.append(chunk)
                continue
            place = draw() % 64
            counted.give(live[place])
            live[place] = chunk
    seconds = time.perf_counter() - start
    for chunk in live:
        counted.give(chunk)
    report("random", "pair", seconds / ROUNDS / len(sizes) * 1e9, "ns")
    report("random", f"reserved/peak.{seed}", counted.ratio(), "ratio")


def resnet50():
    events = [(int(a), int(b)) for a, b in re.findall(r"\{(\d+), (\d+)\}", TRACE.read_text())]
    begin = events.index((0, 0))
    counted, held = Counted(), {}

    def play(part):
        for name, size in part:
            if size != 0:
                held[name] = counted.take(size)
            else:
                counted.give(held.pop(name))

    play(events[:begin])
    for _ in range(100):
        play(events[begin + 1 :])
    report("resnet50", "reserved/peak", counted.ratio(), "ratio")
    for chunk in held.values():
        counted.give(chunk)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: there is no GPU", file=sys.stderr)
        return 77
    for seed in range(options.seeds):
        random_sizes(seed)
    resnet50()
    return 0


if __name__ == "__main__":
    sys.exit(main())
