"""PyTorch's memory rates for the rows of bench_kernels, on a GPU: eager operators, and `--compile` compiled ones."""

import argparse
import statistics

import torch


def rate(name, x, passes, call, repeats):
    call(), call(), torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(20):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 20 / 1e3)
    moved = passes * x.numel() * x.element_size()
    print(f"{name:20} {str(x.dtype)[6:]:10} rate {moved / statistics.median(times) / 1e9:10.1f} GB/s", flush=True)


def run(dtype, wrap, repeats):
    gpu = {"device": "cuda", "dtype": dtype}
    x, odd = torch.rand(8192, 8192, **gpu), torch.rand(8191, 8191, **gpu)
    y, half = torch.rand(8192, 8192, **gpu), torch.rand(8192, 4096, **gpu)
    images, row = torch.rand(64, 256, 56, 56, **gpu), torch.rand(1, 8191, **gpu)
    rows, head = torch.rand(32768, 4096, **gpu), torch.rand(32768, 4096, **gpu)
    norm = torch.nn.BatchNorm2d(256, device="cuda").train()

    def measured(name, of, passes, f, *args):
        f = wrap(f)
        rate(name, of, passes, lambda: f(*args), repeats)

    def backward(name, of, grad, passes, f):
        of = of.clone().requires_grad_()
        y = f(of)
        rate(name, of, passes, lambda: torch.autograd.grad(y, of, grad, retain_graph=True), repeats)

    measured("copy", x, 2, lambda a: a.clone(), x)
    measured("transpose", x, 2, lambda a: a.t().contiguous(), x)
    measured("add-transposed", x, 3, lambda a: a + a.t(), x)
    measured("transpose-odd", odd, 2, lambda a: a.t().contiguous(), odd)
    measured("channels-last", images, 2, lambda a: a.permute(0, 2, 3, 1).contiguous(), images)
    measured("add-row-odd", odd, 2, lambda a, b: a + b, odd, row)
    measured("add-column-odd", odd, 2, lambda a, b: a + b, odd, row.t().contiguous())
    measured("add-both-transposed", x, 3, lambda a, b: a.t() + b.t(), x, y)
    measured("exp-transposed", x, 2, lambda a: a.t().exp().contiguous(), x)
    measured("add-every-second", half, 4, lambda a, b: a[:, ::2] + b, x, half)
    measured("add-channels-last", images, 3, lambda a, b: a + b, images, images.to(memory_format=torch.channels_last))
    left, right = torch.rand(8192, 4096, **gpu), torch.rand(8192, 4095, **gpu)
    measured("concat", x, 2, lambda a: torch.cat((a, a), 1), left)
    measured("concat-odd", x, 2, lambda a, b: torch.cat((a, b), 1), left, right)
    measured("pad", x, 2, lambda a: torch.nn.functional.pad(a, (1, 2)), x)
    measured("pad-reflect", x, 2, lambda a: torch.nn.functional.pad(a[None], (1, 2), mode="reflect"), x)
    measured("roll", x, 2, lambda a: a.roll(3, 1), x)
    measured("flip", x, 2, lambda a: a.flip(1), x)
    measured("flip-rows", x, 2, lambda a: a.flip(0), x)
    measured("tile", x, 3, lambda a: a.tile(1, 2), x)
    measured("repeat", x, 3, lambda a: a.repeat_interleave(2, 1), x)
    measured("softmax", rows, 2, lambda a: torch.softmax(a, -1), rows)
    measured("log-softmax", rows, 2, lambda a: torch.log_softmax(a, -1), rows)
    backward("softmax-backward", rows, head, 3, lambda a: torch.softmax(a, -1))
    measured("argmax", rows, 1, lambda a: a.argmax(1), rows)
    labels = torch.zeros(32768, dtype=torch.int64, device="cuda")
    loss = torch.nn.functional.cross_entropy
    measured("cross-entropy", rows, 1, lambda a: loss(a, labels, reduction="none"), rows)
    backward("cross-entropy-backward", rows, torch.ones_like(rows[:, 0]), 2, lambda a: loss(a, labels, reduction="none"))
    measured("sum-rows", rows, 1, lambda a: a.sum(1), rows)
    measured("sum-columns", rows, 1, lambda a: a.sum(0), rows)
    measured("max-rows", rows, 1, lambda a: a.amax(1), rows)
    measured("sum-0-2-3", images, 1, lambda a: a.sum((0, 2, 3)), images)
    with torch.no_grad():
        measured("batch-norm", images, 3, lambda a: norm(a), images)
    backward("batch-norm-backward", images, images.clone(), 5, norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for dtype in (torch.float32, torch.bfloat16):
        run(dtype, torch.compile if options.compile else lambda f: f, options.repeats)


if __name__ == "__main__":
    main()
