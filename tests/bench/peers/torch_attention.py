"""PyTorch's times of attention for the rows of bench_attention, by each of its backends that takes the problem; backward
also by algorithms that give the same bits each time, as ours do."""

import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

# Batch, heads, groups of heads that share keys, length, width, causal.
PROBLEMS = [
    (16, 16, 16, 2048, 64, True),
    (16, 16, 16, 2048, 128, True),
    (16, 16, 16, 2048, 64, False),
    (16, 16, 16, 2048, 128, False),
    (4, 32, 8, 4096, 128, True),
    (64, 12, 12, 197, 64, False),
]
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def timed(call, repeats, calls=5):
    """The middle time of a call in us."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


def measure(problem, dtype, repeats):
    batch, heads, groups, length, width, causal = problem
    gpu = {"device": "cuda", "dtype": dtype, "requires_grad": True}
    q = torch.randn(batch, heads, length, width, **gpu)
    k, v = (torch.randn(batch, groups, length, width, **gpu) for _ in range(2))
    name = f"{batch}x{heads}/{groups}x{length}x{width}{'c' if causal else ''}"
    for backend, which in BACKENDS.items():
        with sdpa_kernel(which):
            try:
                y = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != groups)
            except RuntimeError:
                print(f"{name:24} {backend:10} does not take it", flush=True)
                continue
            head = torch.randn_like(y)

            def forward():
                return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != groups)

            def backward():
                torch.autograd.grad(y, (q, k, v), head, retain_graph=True)

            print(f"{name:24} {backend:10} forward {timed(forward, repeats):9.1f} us", flush=True)
            for same_bits in (False, True):
                torch.use_deterministic_algorithms(same_bits)
                what = "backward, same bits" if same_bits else "backward"
                try:
                    print(f"{name:24} {backend:10} {what} {timed(backward, repeats):9.1f} us", flush=True)
                except RuntimeError as error:
                    print(f"{name:24} {backend:10} {what}: {str(error).splitlines()[0]}", flush=True)
            torch.use_deterministic_algorithms(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16"])
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    for dtype in arguments.dtypes:
        for problem in PROBLEMS:
            measure(problem, getattr(torch, dtype), arguments.repeats)


if __name__ == "__main__":
    main()
