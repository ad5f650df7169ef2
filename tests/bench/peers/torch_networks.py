"""ResNet-50 and DeepLabV3 of torchvision, as bench_networks runs them: float16, channels-last, tuned algorithms.

`--out FOLDER` writes for each the parameters in the order of the layers, an input and the answer, as bench_networks
takes them (`--weights`), also as float64 has it. `--compile` adds torch.compile(mode="max-autotune"), minutes of compiling. On a GPU."""

import argparse
import copy
import pathlib
import statistics
import time

import numpy
import torch
import torchvision


def seconds(call, steps=50, repeats=7):
    for _ in range(10):
        call()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / steps)
    return statistics.median(times)


def captured(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def with_statistics(net, x):
    """Running statistics as a batch has them, so that values keep their size on the way through."""
    norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():  # of several samples: one has no variance where images were averaged
        net.train()(torch.cat([x, torch.randn(8, *x.shape[1:], device="cuda")]))
    return net.eval()


def exact(net, x, answer):
    """What the same weights give in float64, image by image."""
    exactly = copy.deepcopy(net).double()
    return torch.cat([answer(exactly(image[None].double())) for image in x])


def write(file, net, x, answer):
    arrays = [value for name, value in net.state_dict().items() if not name.endswith("num_batches_tracked")]
    named = {str(at): array.float().cpu().numpy() for at, array in enumerate(arrays)}
    y, wanted = answer(net(x)), exact(net, x, answer)
    off = ((y.double() - wanted).abs().max() / wanted.abs().max()).item()
    print(f"{file.stem} torch error {off:.5f} of_max", flush=True)
    ends = {"x": x.contiguous(), "y": y.contiguous(), "exact": wanted.float().contiguous()}
    numpy.savez(file, **{name: array.cpu().numpy() for name, array in ends.items()}, **named)


def predict(workload, net, x, answer, options):
    torch.manual_seed(0)
    net = with_statistics(net().cuda(), x).half().to(memory_format=torch.channels_last)
    x = x.half().to(memory_format=torch.channels_last)
    with torch.inference_mode():
        if options.out is not None:
            write(options.out / f"{workload}.npz", net, x, answer)
        variants = {"eager": lambda: net(x), "graph": captured(lambda: net(x))}
        if options.compile:
            compiled = torch.compile(net, mode="max-autotune")
            variants["compiled"] = lambda: compiled(x)
        for name, call in variants.items():
            print(f"{workload} torch-{name} forward {seconds(call) * 1e6:.1f} us", flush=True)


def train(batch, options):
    x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    for variant in ["eager", "compiled"] if options.compile else ["eager"]:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        net = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
        run = torch.compile(net) if variant == "compiled" else net
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, fused=True)

        def step():
            sgd.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(run(x), labels)
            loss.backward()
            sgd.step()

        workload = f"resnet50-train-b{batch} torch-{variant}"
        print(f"{workload} throughput {batch / seconds(step, 10, 5):.1f} img/s", flush=True)
        print(f"{workload} peak-allocated {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    models = torchvision.models
    for batch in (1, 32):
        workload = f"resnet50-float16-b{batch}"
        if options.filter in workload:
            x = torch.randn(batch, 3, 224, 224, device="cuda")
            predict(workload, models.resnet50, x, lambda y: y, options)
    if options.filter in "deeplab-float16-b1":
        x = torch.randn(1, 3, 512, 512, device="cuda")
        net = lambda: models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)
        predict("deeplab-float16-b1", net, x, lambda y: y["out"], options)
    if options.filter in f"resnet50-train-b{options.batch}":
        train(options.batch, options)


if __name__ == "__main__":
    main()
