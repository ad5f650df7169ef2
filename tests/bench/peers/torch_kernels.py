"""PyTorch's memory rates for the rows of bench_kernels: eager operators, and `--compile` compiled ones.

On a GPU; with `--device cpu` on as many cores as `--threads` says, `--filter` the rows whose names have that in them."""

import argparse
import statistics
import time

import torch


def seconds_on_gpu(call):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(20):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 20 / 1e3


def seconds_on_cpu(call):
    start = time.perf_counter()
    call(), call()
    return (time.perf_counter() - start) / 2


def rate(name, x, passes, call, options):
    if options.filter not in name:
        return
    call(), call()
    if x.is_cuda:
        torch.cuda.synchronize()
    times = [(seconds_on_gpu if x.is_cuda else seconds_on_cpu)(call) for _ in range(options.repeats)]
    moved = passes * x.numel() * x.element_size()
    print(f"{name:20} {str(x.dtype)[6:]:10} rate {moved / statistics.median(times) / 1e9:10.1f} GB/s", flush=True)


def run(dtype, wrap, options):
    of = {"device": options.device, "dtype": dtype}
    n, count = (8192, 32768) if options.device == "cuda" else (4096, 4096)
    x, odd = torch.rand(n, n, **of), torch.rand(n - 1, n - 1, **of)
    y, half = torch.rand(n, n, **of), torch.rand(n, n // 2, **of)
    images, row = torch.rand(64, 256, 56, 56, **of), torch.rand(1, n - 1, **of)
    pictures = torch.rand(256, 3, 224, 224, **of)
    rows, head = torch.rand(count, 4096, **of), torch.rand(count, 4096, **of)
    norm = torch.nn.BatchNorm2d(256, device=options.device).train()

    def measured(name, of, passes, f, *args):
        f = wrap(f)
        rate(name, of, passes, lambda: f(*args), options)

    def backward(name, of, grad, passes, f, *parameters):
        of = of.clone().requires_grad_()
        y = f(of)
        rate(name, of, passes, lambda: torch.autograd.grad(y, (of, *parameters), grad, retain_graph=True), options)

    measured("copy", x, 2, lambda a: a.clone(), x)
    measured("transpose", x, 2, lambda a: a.t().contiguous(), x)
    measured("add-transposed", x, 3, lambda a: a + a.t(), x)
    measured("transpose-odd", odd, 2, lambda a: a.t().contiguous(), odd)
    measured("channels-last", images, 2, lambda a: a.permute(0, 2, 3, 1).contiguous(), images)
    measured("pictures-last", pictures, 2, lambda a: a.permute(0, 2, 3, 1).contiguous(), pictures)
    measured("add-row-odd", odd, 2, lambda a, b: a + b, odd, row)
    measured("add-column-odd", odd, 2, lambda a, b: a + b, odd, row.t().contiguous())
    measured("add-both-transposed", x, 3, lambda a, b: a.t() + b.t(), x, y)
    measured("exp-transposed", x, 2, lambda a: a.t().exp().contiguous(), x)
    measured("add-every-second", half, 4, lambda a, b: a[:, ::2] + b, x, half)
    measured("add-channels-last", images, 3, lambda a, b: a + b, images, images.to(memory_format=torch.channels_last))
    left, right = torch.rand(n, n // 2, **of), torch.rand(n, n // 2 - 1, **of)
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
    measured("argmax-columns", rows, 1, lambda a: a.argmax(0), rows)
    measured("argmax-all", rows.flatten(), 1, lambda a: a.argmax(0), rows.flatten())
    labels = torch.zeros(count, dtype=torch.int64, device=options.device)
    loss = torch.nn.functional.cross_entropy
    measured("cross-entropy", rows, 1, lambda a: loss(a, labels, reduction="none"), rows)
    backward("cross-entropy-backward", rows, torch.ones_like(rows[:, 0]), 2, lambda a: loss(a, labels, reduction="none"))
    measured("sum-rows", rows, 1, lambda a: a.sum(1), rows)
    measured("sum-columns", rows, 1, lambda a: a.sum(0), rows)
    measured("max-rows", rows, 1, lambda a: a.amax(1), rows)
    measured("max-columns", rows, 1, lambda a: a.amax(0), rows)
    measured("sum-0-2-3", images, 1, lambda a: a.sum((0, 2, 3)), images)
    with torch.no_grad():
        measured("batch-norm", images, 3, lambda a: norm(a), images)
    backward("batch-norm-backward", images, images.clone(), 5, norm)
    norms(rows, head, images, of, measured, backward)


def norms(rows, head, images, of, measured, backward):
    f = torch.nn.functional
    gamma, beta = torch.ones(4096, **of, requires_grad=True), torch.zeros(4096, **of, requires_grad=True)
    scale, shift = torch.ones(256, **of, requires_grad=True), torch.zeros(256, **of, requires_grad=True)
    layers = {"layer-norm": (lambda a: f.layer_norm(a, (4096,), gamma, beta), (gamma, beta)),
              "rms-norm": (lambda a: f.rms_norm(a, (4096,), gamma), (gamma,))}
    planes = {"group-norm": lambda a: f.group_norm(a, 16, scale, shift),
              "instance-norm": lambda a: f.instance_norm(a, weight=scale, bias=shift)}
    for name, (layer, parameters) in layers.items():
        with torch.no_grad():
            measured(name, rows, 2, layer, rows)
        backward(f"{name}-backward", rows, head, 3, layer, *parameters)
    for name, plane in planes.items():
        with torch.no_grad():
            measured(name, images, 2, plane, images)
        backward(f"{name}-backward", images, images.clone(), 5, plane, scale, shift)


def run_orders(dtype, wrap, options):
    of = {"device": options.device, "dtype": dtype}
    counts = (32768, 16384) if options.device == "cuda" else (4096, 1024)
    rows, x = torch.rand(counts[0], 4096, **of) * 2 - 1, torch.rand(counts[1], 1024, **of) * 2 - 1
    short, long_rows, flat = rows.view(-1, 8), x.view(counts[1] // 8, -1), x.flatten()
    indices = 8 / x.element_size()

    def measured(name, of, passes, f):
        f = wrap(f)
        rate(name, of, passes, lambda: f(of), options)

    for name, f in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
        measured(f"{name}-rows", rows, 2, lambda a: f(a, 1))
    measured("cumsum-columns", rows, 2, lambda a: a.cumsum(0))
    measured("cumsum-all", rows.flatten(), 2, lambda a: a.cumsum(0))
    measured("cumsum-short", short, 2, lambda a: a.cumsum(1))
    measured("cummax-rows", rows, 2 + indices, lambda a: a.cummax(1)[0])
    measured("diff-rows", rows, 2, lambda a: a.diff(dim=1))
    of_rows = rows.clone().requires_grad_()
    products = of_rows.cumprod(1)
    head = torch.rand_like(rows)
    rate("cumprod-backward", rows, 4, lambda: torch.autograd.grad(products, of_rows, head, retain_graph=True), options)
    measured("sort-rows", x, 2, lambda a: a.sort()[0])
    measured("sort-indices-rows", x, 2 + indices, lambda a: a.sort(stable=True)[0])
    measured("sort-long-rows", long_rows, 2 + indices, lambda a: a.sort(stable=True)[0])
    measured("sort-all", flat, 2, lambda a: a.sort()[0])
    measured("argsort-all", flat, 2 + indices, lambda a: a.argsort(stable=True))
    measured("topk-rows", x, 1, lambda a: a.topk(10)[0])
    measured("topk-long-rows", long_rows, 1, lambda a: a.topk(50)[0])
    measured("topk-all", flat, 1, lambda a: a.topk(50)[0])
    among = flat[:1024].sort()[0]
    measured("searchsorted", flat, 1 + indices, lambda a: torch.searchsorted(among, a))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype in (torch.float32, torch.bfloat16):
        wrap = torch.compile if options.compile else lambda f: f
        run(dtype, wrap, options)
        run_orders(dtype, wrap, options)


if __name__ == "__main__":
    main()
