"""PyTorch's times for the rows of bench_families: eager, forward and with the gradient, of a type that `--dtype` names.

On a CPU as many cores as `--threads` says, and the least of the blocks and their processor time too; `--filter` the rows
whose names have that in them."""

import argparse
import statistics
import time

import torch
from torch.nn import functional as F

try:
    import torchvision.ops as vision
except ImportError:
    vision = None


class Families:
    def __init__(self, options):
        self.options = options
        self.gpu = options.device == "cuda"
        self.dtype = getattr(torch, options.dtype)
        torch.manual_seed(3)

    def many(self, count):
        return 16 * count if self.gpu else count

    def drawn(self, *shape, low=-1.0, high=1.0):
        return torch.empty(shape, device=self.options.device).uniform_(low, high).to(self.dtype)

    def whole(self, below, *shape):
        return torch.randint(0, below, shape, device=self.options.device)

    def time(self, name, variant, call):
        if self.options.filter not in f"{name} {variant}":
            return
        steps = 20 if self.gpu else 3
        try:
            call(), call()
        except RuntimeError as error:
            if self.dtype == torch.float32:
                raise
            print(f"{name:24} {variant:10} refused: {str(error)[:60]}", flush=True)
            return
        times, processor = [], []
        for _ in range(self.options.repeats):
            if self.gpu:
                torch.cuda.synchronize()
            start, used = time.perf_counter(), time.process_time()
            for _ in range(steps):
                call()
            if self.gpu:
                torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / steps * 1e6)
            processor.append((time.process_time() - used) / steps * 1e6)
        of_cpu = "" if self.gpu else f" least {min(times):12.1f} us processor {min(processor):12.1f} us"
        print(f"{name:24} {variant:10} call {statistics.median(times):12.1f} us{of_cpu}", flush=True)

    def forward(self, name, x, f):
        with torch.no_grad():
            self.time(name, "forward", lambda: f(x))

    def both(self, name, x, f, others=()):
        self.forward(name, x, f)
        variables = [v.clone().requires_grad_() for v in (x, *others)]
        if self.options.filter not in f"{name} gradient":
            return
        head = []

        def step():
            y = f(variables[0], *variables[1:])
            if not head:
                head.append(torch.ones_like(y))
            return torch.autograd.grad(y, variables, head[0])

        self.time(name, "gradient", step)

    def windows(self):
        line, of_line = self.drawn(self.many(8), 64, 1024), self.drawn(64, 64, 3)
        self.both("conv1d", line, lambda x, w=of_line: F.conv1d(x, w, padding=1), [of_line])
        x, turned = self.drawn(self.many(8), 64, 28, 28), self.drawn(64, 32, 4, 4)
        each, grouped, apart = self.drawn(64, 1, 3, 3), self.drawn(64, 8, 3, 3), self.drawn(64, 64, 3, 3)
        self.both("deconvolution", x, lambda v, w=turned: F.conv_transpose2d(v, w, stride=2, padding=1), [turned])
        self.both("conv-depthwise", x, lambda v, w=each: F.conv2d(v, w, padding=1, groups=64), [each])
        self.both("conv-grouped", x, lambda v, w=grouped: F.conv2d(v, w, padding=1, groups=8), [grouped])
        self.both("conv-dilated", x, lambda v, w=apart: F.conv2d(v, w, padding=2, dilation=2), [apart])
        self.both("im2col", x, lambda v: F.unfold(v, 3, padding=1))
        self.both("local-response-norm", x, lambda v: F.local_response_norm(v, 5))

    def volumes(self):
        x, weight = self.drawn(self.many(2), 16, 16, 32, 32), self.drawn(16, 16, 3, 3, 3)
        turned = self.drawn(16, 16, 2, 2, 2)
        self.both("conv3d", x, lambda v, w=weight: F.conv3d(v, w, padding=1), [weight])
        self.both("deconvolution3d", x, lambda v, w=turned: F.conv_transpose3d(v, w, stride=2), [turned])
        self.both("max-pool3d", x, lambda v: F.max_pool3d(v, 2))
        self.both("average-pool3d", x, lambda v: F.avg_pool3d(v, 2))

    def pools(self):
        x = self.drawn(self.many(8), 64, 56, 56)
        self.both("adaptive-average-pool", x, lambda v: F.adaptive_avg_pool2d(v, 7))
        self.both("adaptive-max-pool", x, lambda v: F.adaptive_max_pool2d(v, 7))
        self.both("global-average-pool", x, lambda v: F.adaptive_avg_pool2d(v, 1))
        self.both("lp-pool", self.drawn(*x.shape, low=0.5), lambda v: F.lp_pool2d(v, 2, 2))
        self.both("max-pool1d", x.flatten(2), lambda v: F.max_pool1d(v, 2))

    def images(self):
        x = self.drawn(self.many(8), 32, 56, 56)
        self.both("resize-nearest", x, lambda v: F.interpolate(v, (112, 112)))
        self.both("resize-bilinear", x, lambda v: F.interpolate(v, (112, 112), mode="bilinear"))
        self.both("resize-bicubic", x, lambda v: F.interpolate(v, (112, 112), mode="bicubic"))
        self.both("resize-antialias", x, lambda v: F.interpolate(v, (29, 29), mode="bilinear", antialias=True))
        grid = self.drawn(self.many(8), 56, 56, 2)
        self.both("grid-sample", x, lambda v, g=grid: F.grid_sample(v, g, align_corners=False), [grid])
        if vision:
            offset, weight = self.drawn(self.many(8), 18, 56, 56), self.drawn(32, 32, 3, 3)
            self.both("deformable-convolution", x, lambda v, o=offset, w=weight: vision.deform_conv2d(v, o, w, padding=1),
                      [offset, weight])

    def boxes(self):
        if not vision:
            return
        corner = self.drawn(2000, 2, low=0, high=90)
        boxes, scores = torch.cat((corner, corner + self.drawn(2000, 2, low=5, high=10)), 1), self.drawn(2000)
        self.forward("box-iou", boxes, lambda v: vision.box_iou(v, v))
        self.forward("nms", boxes, lambda v: vision.nms(v, scores, 0.5))
        x = self.drawn(2, 64, 56, 56)
        rois = torch.cat((torch.zeros_like(boxes[:, :1]), boxes), 1)[:256].contiguous()
        self.both("roi-align", x, lambda v: vision.roi_align(v, rois, 7, 0.5, 2))

    def sequences(self):
        x, labels = self.drawn(128, self.many(16), 64), self.whole(63, self.many(16), 4) + 1
        steps = torch.full((self.many(16),), 128, device=x.device)
        lengths = torch.full((self.many(16),), 4, device=x.device)
        self.both("ctc", x, lambda v: F.ctc_loss(v.log_softmax(2), labels, steps, lengths, reduction="none"))
        table, words = self.drawn(32768, 256), self.whole(32768, self.many(8192))
        self.both("embedding", table, lambda v: F.embedding(words, v))
        q, k, v = (self.drawn(self.many(2), 8, 256, 64) for _ in range(3))
        self.both("attention", q, lambda a, b=k, c=v: F.scaled_dot_product_attention(a, b, c), [k, v])

    def chosen(self):
        n = self.many(1 << 20)
        x, few, at, values = self.drawn(n), self.whole(1000, n), self.whole(n, n // 2), self.drawn(n // 2)
        mask = x > 0
        self.forward("nonzero", mask, torch.nonzero)
        self.forward("boolean-mask", x, lambda v: v[mask])
        self.forward("unique-few", few, torch.unique)
        self.forward("unique-many", x, torch.unique)
        self.forward("masked-fill", x, lambda v: v.masked_fill(mask, 2))
        self.forward("index-add", x, lambda v: v.index_add(0, at, values))
        self.forward("put", x, lambda v: v.put(at, values))
        labels = self.whole(100, n // 64)
        self.forward("one-hot", labels, lambda v: F.one_hot(v, 100).float())
        rows, places = x.view(-1, 64), self.whole(n // 64, n // 64)
        self.both("gather-nd", rows, lambda v: v[places])
        self.forward("scatter-nd", rows, lambda v: torch.zeros_like(v).index_put_((places,), v))

    def counted(self):
        n = self.many(1 << 20)
        x, few = self.drawn(n), self.whole(256, n)
        rows = x.view(-1, 1024)
        self.forward("bincount", few, lambda v: torch.bincount(v, minlength=256))
        self.forward("histogram", x, lambda v: torch.histc(v, 100, -1, 1))
        self.forward("median-rows", rows, lambda v: v.quantile(0.5, 1))
        if not self.gpu:  # its quantile takes 16 million elements at most
            self.forward("quantile-all", x, lambda v: v.quantile(0.3))
        self.both("variance-rows", rows, lambda v: v.var(1, correction=0))
        self.both("variance-columns", rows, lambda v: v.var(0, correction=0))
        self.both("norm-rows", rows, lambda v: torch.linalg.vector_norm(v, 2, 1))
        self.both("logsumexp-rows", rows, lambda v: v.logsumexp(1))
        self.both("logsumexp-columns", rows, lambda v: v.logsumexp(0))
        self.both("prod-rows", rows, lambda v: v.prod(1))
        self.forward("any-rows", rows > 2, lambda v: v.any(1))
        self.forward("count-nonzero", rows, lambda v: v.count_nonzero(1))
        self.forward("nansum-rows", rows, lambda v: v.nansum(1))

    def linear(self):
        x = self.drawn(512, 512)
        positive = x @ x.T + torch.eye(512, device=x.device) * 512
        half = x[:256, :256].contiguous()
        self.both("cholesky", positive, torch.linalg.cholesky)
        self.both("inverse", positive, torch.linalg.inv)
        self.both("solve", positive, lambda v: torch.linalg.solve(v, x))
        self.both("triangular-solve", positive, lambda v: torch.linalg.solve_triangular(v, x, upper=False))
        self.both("determinant", half, lambda v: torch.linalg.slogdet(v)[1])
        self.both("qr", x, lambda v: torch.linalg.qr(v)[1])
        self.forward("svd", half, lambda v: torch.linalg.svd(v, full_matrices=False)[1])
        self.forward("eigh", positive, lambda v: torch.linalg.eigh(v)[1])

    def batches_of_matrices(self):
        x = self.drawn(self.many(512), 16, 16)
        positive = x @ x.mT + torch.eye(16, device=x.device) * 16
        self.both("cholesky-batch", positive, torch.linalg.cholesky)
        self.both("inverse-batch", positive, torch.linalg.inv)
        self.both("solve-batch", positive, lambda v: torch.linalg.solve(v, x))
        self.both("determinant-batch", positive, torch.linalg.det)
        if not self.gpu:  # one matrix after the other there, half a second
            self.forward("qr-batch", x, lambda v: torch.linalg.qr(v)[1])
        self.forward("svd-batch", x, lambda v: torch.linalg.svd(v, full_matrices=False)[1])
        self.forward("eigh-batch", positive, lambda v: torch.linalg.eigh(v)[0])

    def products(self):
        x = self.drawn(512, 512)
        half, four = x[:256, :256].contiguous(), torch.ones(4, 4, device=x.device, dtype=self.dtype)
        self.forward("einsum", x, lambda v: torch.einsum("ij,kj->ki", v, x))
        self.forward("kron", half, lambda v: torch.kron(v, four))
        each, other = self.drawn(self.many(512), 16, 16), self.drawn(self.many(512), 16, 16)
        self.both("batch-dot", each, lambda v, w=other: v @ w.mT, [other])

    def draws(self):
        n, like = self.many(1 << 20), self.drawn(self.many(1 << 20))
        weights, one = self.drawn(64, 1000, low=0.1), torch.ones_like(like)
        draws = {
            "bernoulli-uniform": lambda: torch.rand_like(like) < 0.3,
            "exponential": lambda: torch.empty_like(like).exponential_(),
            "truncated-normal": lambda: torch.nn.init.trunc_normal_(torch.empty_like(like)),
            "poisson": lambda: torch.poisson(one * 4),
            "randint": lambda: torch.randint(0, 100, (n,), device=like.device),
            "permutation": lambda: torch.randperm(n, device=like.device),
            "categorical": lambda: torch.multinomial(weights, 100, replacement=True),
        }
        distributions = torch.distributions
        unit, zero = torch.ones((), device=like.device, dtype=self.dtype), like.new_zeros(())
        laplace, gumbel = distributions.Laplace(zero, unit), distributions.Gumbel(zero, unit)
        draws["laplace"] = lambda: laplace.sample((n,))
        draws["gumbel"] = lambda: gumbel.sample((n,))
        draws["gamma"] = lambda: torch._standard_gamma(one * 2.5)
        beta = distributions.Beta(unit * 2, unit * 3)
        draws["beta"] = lambda: beta.sample((n,))
        for name, call in draws.items():
            self.time(name, "forward", call)

    def activations(self):
        x = self.drawn(self.many(1 << 20))
        positive = x.abs() + 1
        for name, f in (("gelu", F.gelu), ("silu", F.silu), ("softplus", F.softplus), ("elu", F.elu), ("erf", torch.erf)):
            self.both(name, x, f)
        self.both("lgamma", positive, torch.lgamma)
        self.forward("digamma", positive, torch.digamma)
        self.both("power", positive, lambda v: v.pow(x))
        self.both("arctan2", x, lambda v: torch.atan2(v, positive))
        self.forward("remainder", x, lambda v: torch.remainder(v, x + 3))

    def optimizers(self):
        weights = [self.drawn(1024, 1024).requires_grad_() for _ in range(10)]
        for weight in weights:
            weight.grad = self.drawn(1024, 1024)
        for name, kind, settings in (
            ("adamw", torch.optim.AdamW, {"fused": True}),
            ("rmsprop", torch.optim.RMSprop, {"foreach": True}),
            ("adafactor", torch.optim.Adafactor, {}),
        ):
            optimizer = kind(weights, **settings)
            self.time(name, "step", optimizer.step)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--filter", default="")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    families = Families(options)
    decompositions = ("linear", "batches_of_matrices") if options.dtype == "float32" else ()
    for name in ("windows", "volumes", "pools", "images", "boxes", "sequences", "chosen", "counted", *decompositions,
                 "products", "draws", "activations", "optimizers"):
        getattr(families, name)()


if __name__ == "__main__":
    main()
