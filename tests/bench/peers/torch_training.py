"""The training steps of `bench_training --autocast bfloat16`, on a CPU: float32 and torch.autocast in turns, or with
--compile float32 as it is, in channels-last order and compiled."""

import argparse
import statistics
import time

import torch
from torch import nn


class Residual(nn.Module):
    """Two convolutions and what they are added to, as in a ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.beside = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.beside(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [Residual(inputs, outputs, 1 if outputs == 64 else 2), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn_torch():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def cnn_tf():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 64), nn.ReLU(), nn.Linear(64, 10))


WORKLOADS = [  # name, network, images, rate of SGD (None: Adam), steps
    ("mlp-b256-sgd", mlp, (256, 1, 28, 28), 0.1, 50),
    ("cnn-torch-b64", cnn_torch, (64, 1, 28, 28), None, 3),
    ("cnn-tf-b64", cnn_tf, (64, 1, 28, 28), None, 15),
    ("resnet18-b8", resnet18, (8, 3, 64, 64), 0.01, 1),
    ("resnet18-b16", resnet18, (16, 3, 128, 128), 0.01, 1),
]


def step_of(make, shape, rate, variant):
    """A training step, in bfloat16 or otherwise than by default where the variant says so."""
    torch.manual_seed(7)
    net, loss, low = make(), nn.CrossEntropyLoss(), variant == "bfloat16"
    x, y = torch.randn(shape), torch.randint(0, 10, shape[:1])
    if variant == "channels-last":
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters()) if rate is None else torch.optim.SGD(
        net.parameters(), lr=rate, momentum=0.9)
    if variant == "compiled":
        net = torch.compile(net)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            value = loss(net(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--filter", default="")
    parser.add_argument("--cpu-time", action="store_true", help="of the process, where others share the machine")
    parser.add_argument("--compile", action="store_true", help="float32 in other ways in the place of bfloat16")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.cpu_time else time.perf_counter
    for name, make, shape, rate, steps in WORKLOADS:
        if given.filter not in name:
            continue
        variants = ("float32", "channels-last", "compiled") if given.compile else ("float32", "bfloat16")
        contenders = {variant: step_of(make, shape, rate, variant) for variant in variants}
        times = {variant: [] for variant in contenders}
        for turn in range(-2, given.repeats):
            for variant, step in contenders.items():
                start = clock()
                for _ in range(steps):
                    step()
                if turn >= 0:
                    times[variant].append((clock() - start) / steps)
        for variant, taken in times.items():
            print(f"{name} torch-{variant} {statistics.median(taken) * 1e6:.0f} us, best {min(taken) * 1e6:.0f}")


if __name__ == "__main__":
    main()
