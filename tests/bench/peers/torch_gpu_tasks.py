#!/usr/bin/env python3
"""Peer of bench_gpu_tasks: PyTorch. A chain of tiny kernels, and how long the host waits for a number on the GPU.

Of the flags of bench_gpu_tasks these count here: --tasks N --samples N --repeats N --filter TEXT --smoke. The other
workloads have peers in torch_bench.py (branches, pipeline, overhead, allocator).
"""
import argparse
import statistics
import sys
import time

import torch


def report(workload, metric, values, unit="us"):
    print(f"{workload:<16} {'torch-eager':<28} {metric:<18} {statistics.median(values):12.4f} {unit}", flush=True)


def kernel_chain(options):
    word = torch.zeros(16, device="cuda")
    host, wall = [], []
    for block in range(-2, options.repeats):
        start = time.perf_counter()
        for _ in range(options.tasks):
            word.add_(1)
        pushed = time.perf_counter()
        torch.cuda.synchronize()
        if block >= 0:
            host.append((pushed - start) / options.tasks * 1e6)
            wall.append((time.perf_counter() - start) / options.tasks * 1e6)
    report("kernels-chain", "host-per-task", host)
    report("kernels-chain", "wall-per-task", wall)
    return word[0].item() == (options.repeats + 2) * options.tasks


def scalar_read(options):
    word = torch.zeros(1, device="cuda")
    right, taken = True, []
    for sample in range(-5, options.samples):
        start = time.perf_counter()
        word.add_(1)
        value = word.item()
        if sample >= 0:
            taken.append((time.perf_counter() - start) * 1e6)
        right = right and value == sample + 6
    report("scalar-read", "p50", taken)
    report("scalar-read", "p99", [sorted(taken)[(len(taken) - 1) * 99 // 100]])
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--filter", default="")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_known_args()[0]
    if options.smoke:
        options.tasks, options.samples, options.repeats = 100, 5, 1
    wrong = [name for name, work in (("kernels-chain", kernel_chain), ("scalar-read", scalar_read))
             if options.filter in f"{name} torch-eager" and not work(options)]
    if wrong:
        sys.exit(f"WRONG RESULT: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
