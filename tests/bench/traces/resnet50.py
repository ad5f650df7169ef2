#!/usr/bin/env python3
"""Writes resnet50.txt: what one training step of ResNet-50 asks of an allocator (float32, batch 32, 224 x 224 images).

    python3 tests/bench/traces/resnet50.py > tests/bench/traces/resnet50.txt

Derived from the network's shapes (He et al., 2016, table 1; stride in the 3 x 3 convolutions), not recorded. A line is
`{id, bytes},`: the id comes to life with so many bytes, or ends (0 bytes). Before the line `{0, 0},` stand parameters
and momenta, which stay. Then a step: every operator writes a new array; kept until used backward are the inputs of
convolutions and of batch norms with their two statistics, and the outputs of relu and pooling; a gradient goes as soon as
it has been used, two for the same array are added into a third; gradients of parameters go after the update. Workspaces
of convolutions are left out: they hang on the library.
"""
BATCH = 32


class Trace:
    def __init__(self):
        self.next = 1
        self.uses = {}

    def new(self, count, uses=1):
        name = self.next
        self.next += 1
        self.uses[name] = uses
        print(f"{{{name}, {4 * count}}},")
        return name

    def used(self, name):
        self.uses[name] -= 1
        if self.uses[name] == 0:
            print(f"{{{name}, 0}},")


class Network:
    """Runs forward when called; remembers how to run backward."""

    def __init__(self, trace):
        self.trace, self.backward, self.parameters = trace, [], []

    def array(self, shape, uses):
        channels, size = shape
        return self.trace.new(BATCH * channels * size * size, uses)

    def conv_norm(self, x, shape, channels, kernel, stride):
        """x, of `shape`, has one use for this convolution backward beside the one that it is given here."""
        trace, (before, size) = self.trace, shape
        after = (channels, size // stride)
        weights = before * channels * kernel * kernel
        y = self.array(after, 1)
        statistics = [trace.new(channels), trace.new(channels)]
        z = self.array(after, 1)

        def backward(dz):
            dy = self.array(after, 1)
            self.parameters += [trace.new(channels), trace.new(channels)]
            for name in [dz, y, *statistics]:
                trace.used(name)
            dx = self.array(shape, 1)
            self.parameters.append(trace.new(weights))
            trace.used(dy)
            trace.used(x)
            return dx

        return z, after, backward

    def relu(self, x, shape, uses):
        y = self.array(shape, uses + 1)
        self.trace.used(x)

        def backward(dy):
            dx = self.array(shape, 1)
            self.trace.used(dy)
            self.trace.used(y)
            return dx

        return y, backward

    def add(self, a, b, shape):
        y = self.array(shape, 1)
        self.trace.used(a)
        self.trace.used(b)
        return y

    def bottleneck(self, x, shape, width, stride, project):
        a, middle, conv1 = self.conv_norm(x, shape, width, 1, 1)
        a, relu1 = self.relu(a, middle, 1)
        b, small, conv2 = self.conv_norm(a, middle, width, 3, stride)
        b, relu2 = self.relu(b, small, 1)
        c, after, conv3 = self.conv_norm(b, small, 4 * width, 1, 1)
        shortcut, conv4 = x, None
        if project:
            shortcut, _, conv4 = self.conv_norm(x, shape, 4 * width, 1, stride)
        y = self.add(c, shortcut, after)
        y, relu3 = self.relu(y, after, 2)

        def backward(dy):
            d = relu3(dy)
            self.trace.uses[d] = 2
            dx = conv1(relu1(conv2(relu2(conv3(d)))))
            other = conv4(d) if conv4 else d
            return self.add(dx, other, shape)

        return y, after, backward


def step(trace):
    network, backward = Network(trace), []
    image = trace.new(BATCH * 3 * 224 * 224)
    x, shape, conv = network.conv_norm(image, (3, 224), 64, 7, 2)
    x, relu = network.relu(x, shape, 1)
    pooled_shape = (64, 56)
    pooled = network.array(pooled_shape, 3)

    def pool_backward(dy):
        dx = network.array(shape, 1)
        for name in (dy, x, pooled):
            trace.used(name)
        return dx

    backward += [conv, relu, pool_backward]
    x_, shape_ = pooled, pooled_shape
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            x_, shape_, back = network.bottleneck(x_, shape_, width, stride if i == 0 else 1, i == 0)
            backward.append(back)
    features = trace.new(BATCH * 2048, 2)
    for _ in range(2):
        trace.used(x_)  # no next block: its relu alone needs it
    scores = trace.new(BATCH * 1000)
    loss = trace.new(BATCH)
    d = trace.new(BATCH * 1000)
    network.parameters += [trace.new(2048 * 1000), trace.new(1000)]
    d_features = trace.new(BATCH * 2048)
    for name in (scores, loss, d, features, features):
        trace.used(name)
    dy = network.array(shape_, 1)
    trace.used(d_features)
    for back in reversed(backward):
        dy = back(dy)
    trace.used(dy)
    for name in network.parameters:
        trace.used(name)
    left = [name for name, uses in trace.uses.items() if uses != 0]
    assert not left, left


def parameters(trace):
    shapes = [(3, 64, 7)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            shapes += [(channels, width, 1), (width, width, 3), (width, 4 * width, 1)]
            shapes += [(channels, 4 * width, 1)] if i == 0 else []
            channels = 4 * width
    for before, after, kernel in shapes:
        for count in (before * after * kernel * kernel, after, after):
            trace.new(count)
            trace.new(count)
    for count in (2048 * 1000, 1000):
        trace.new(count)
        trace.new(count)


def main():
    trace = Trace()
    parameters(trace)
    print("{0, 0},")
    trace.uses = {}
    step(trace)


if __name__ == "__main__":
    main()
