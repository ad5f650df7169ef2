"""PyTorch's times of matrix products for the rows of bench_products: its own choice of algorithm, TF32 for float32."""

import argparse
import statistics

import torch

# Batch, rows, columns, length of the sums, whether the right matrix is stored transposed.
PROBLEMS = [
    (1, 128, 128, 128, False),
    (1, 256, 256, 256, False),
    (1, 512, 512, 512, False),
    (1, 1024, 1024, 1024, False),
    (1, 2048, 2048, 2048, False),
    (1, 4096, 4096, 4096, False),
    (1, 8192, 8192, 8192, False),
    (1, 1000, 1000, 1000, False),
    (1, 1, 4096, 4096, False),
    (1, 1, 4096, 4096, True),
    (1, 8, 4096, 4096, False),
    (1, 16, 11008, 4096, True),
    (1, 32, 4096, 11008, False),
    (1, 64, 4096, 4096, True),
    (1, 128, 4096, 4096, True),
    (1, 256, 784, 512, False),
    (1, 256, 10, 512, True),
    (1, 4096, 10, 512, False),
    (1, 65536, 16, 64, False),
    (1, 65536, 64, 576, False),
    (1, 64, 64, 65536, False),
    (1, 10, 512, 4096, False),
    (1, 8192, 1024, 1024, False),
    (1, 8192, 1024, 4096, True),
    (1, 50257, 768, 64, False),
    (16, 128, 128, 64, True),
    (96, 512, 512, 64, True),
    (96, 512, 64, 512, False),
    (384, 197, 197, 64, True),
    (1024, 32, 32, 32, False),
]


def timed(call, repeats):
    """The middle time of a call in us: twenty of them in a CUDA graph, so that the host's part does not count."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            call()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 50)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    for dtype in arguments.dtypes:
        for batch, m, n, k, turned in PROBLEMS:
            gpu = {"device": "cuda", "dtype": getattr(torch, dtype)}
            lead = (batch,) if batch > 1 else ()
            a = torch.randn(*lead, m, k, **gpu)
            b = torch.randn(*lead, n, k, **gpu).mT if turned else torch.randn(*lead, k, n, **gpu)
            name = f"{batch}x{m}x{n}x{k}{'t' if turned else ''}"
            print(f"{name:18} {dtype:10} time {timed(lambda: a @ b, arguments.repeats):10.2f} us", flush=True)


if __name__ == "__main__":
    main()
