"""PyTorch's times of ResNet-50's convolutions, batch 256, forward and both gradients, with cudnn.benchmark, for the rows
of bench_convolutions; channels-last, the layout that is quicker there, unless `--nchw`."""

import argparse
import statistics

import torch

# Name, input channels, height and width, output channels, kernel, stride.
CONVOLUTIONS = [
    ("3-64-7s2", 3, 224, 64, 7, 2),
    ("64-64-1", 64, 56, 64, 1, 1),
    ("64-64-3", 64, 56, 64, 3, 1),
    ("64-256-1", 64, 56, 256, 1, 1),
    ("256-64-1", 256, 56, 64, 1, 1),
    ("256-128-1", 256, 56, 128, 1, 1),
    ("128-128-3s2", 128, 56, 128, 3, 2),
    ("128-512-1", 128, 28, 512, 1, 1),
    ("256-512-1s2", 256, 56, 512, 1, 2),
    ("512-128-1", 512, 28, 128, 1, 1),
    ("128-128-3", 128, 28, 128, 3, 1),
    ("512-256-1", 512, 28, 256, 1, 1),
    ("256-256-3s2", 256, 28, 256, 3, 2),
    ("256-1024-1", 256, 14, 1024, 1, 1),
    ("512-1024-1s2", 512, 28, 1024, 1, 2),
    ("1024-256-1", 1024, 14, 256, 1, 1),
    ("256-256-3", 256, 14, 256, 3, 1),
    ("512-512-3s2", 512, 14, 512, 3, 2),
    ("512-2048-1", 512, 7, 2048, 1, 1),
    ("512-512-3", 512, 7, 512, 3, 1),
]


def measure(name, variant, call, repeats):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 100)
    print(f"{name:16} {variant:20} time {statistics.median(times):10.1f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float16"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nchw", action="store_true")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    layout = torch.contiguous_format if arguments.nchw else torch.channels_last
    for dtype in arguments.dtypes:
        for name, inputs, size, outputs, kernel, stride in CONVOLUTIONS:
            gpu = {"device": "cuda", "dtype": getattr(torch, dtype)}
            x = torch.randn(arguments.batch, inputs, size, size, **gpu).to(memory_format=layout)
            weight = torch.randn(outputs, inputs, kernel, kernel, **gpu).to(memory_format=layout)
            how = ([stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1)
            y = torch.ops.aten.convolution(x, weight, None, *how)
            dy = torch.randn_like(y)

            def gradient(*wanted):
                return torch.ops.aten.convolution_backward(dy, x, weight, None, *how, list(wanted))

            measure(name, f"forward-{dtype}", lambda: torch.ops.aten.convolution(x, weight, None, *how), arguments.repeats)
            measure(name, f"data-{dtype}", lambda: gradient(True, False, False), arguments.repeats)
            measure(name, f"weights-{dtype}", lambda: gradient(False, True, False), arguments.repeats)


if __name__ == "__main__":
    main()
