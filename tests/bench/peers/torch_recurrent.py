"""PyTorch's times of recurrent layers for the rows of bench_recurrent, on a CPU or a GPU."""

import argparse
import statistics
import time

import torch

# Kind, steps, batch, inputs, units, layers, both ways.
PROBLEMS = [
    ("lstm", 35, 64, 256, 256, 1, False),
    ("lstm", 35, 64, 512, 512, 1, False),
    ("gru", 35, 64, 512, 512, 1, False),
    ("rnn_tanh", 35, 64, 512, 512, 1, False),
    ("lstm", 35, 64, 512, 512, 2, True),
    ("lstm", 35, 1, 512, 512, 1, False),
]
LARGE = [("lstm", 128, 128, 1024, 1024, 2, False), ("gru", 128, 128, 1024, 1024, 2, False)]
LAYERS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}


def timed(call, device, repeats):
    """Middle and least time of a call in us."""
    calls = 10 if device == "cuda" else 1
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times), min(times)


def measure(problem, dtype, device, repeats):
    kind, steps, batch, inputs, units, layers, both = problem
    name = f"{kind}-{steps}x{batch}x{units}x{layers}{'-both' if both else ''}"
    network = LAYERS[kind](inputs, units, layers, bidirectional=both).to(device, dtype)
    x = torch.randn(steps, batch, inputs, device=device, dtype=dtype, requires_grad=True)
    head = torch.randn(steps, batch, units * (2 if both else 1), device=device, dtype=dtype)
    weights = [x, *network.parameters()]

    def forward():
        with torch.no_grad():
            network(x)

    def training():
        torch.autograd.grad(network(x)[0], weights, head)

    for what, call in (("forward", forward), ("training", training)):
        middle, least = timed(call, device, repeats)
        print(f"{name:28} {str(dtype)[6:]:9} {what:9} {middle:9.1f} us, least {least:9.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--dtypes", nargs="+", default=None)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    on_gpu = arguments.device == "cuda"
    dtypes = arguments.dtypes or (["float32", "float16", "bfloat16"] if on_gpu else ["float32"])
    for dtype in dtypes:
        for problem in PROBLEMS + (LARGE if on_gpu else []):
            measure(problem, getattr(torch, dtype), arguments.device, arguments.repeats)


if __name__ == "__main__":
    main()
