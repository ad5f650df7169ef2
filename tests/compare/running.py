"""Runs one call in Sluice and in PyTorch: values, gradients, gradients of these."""

import dataclasses
import zlib

import torch

import client
import judging
import values
from client import SluiceError

HALF = {"float16", "bfloat16"}


class ReferenceFails(Exception):
    """PyTorch refuses what an entry of the table asks for: a fault of the entry."""


@dataclasses.dataclass
class Difference:
    """What did not agree."""

    op: str
    dtype: str
    layout: str
    what: str
    call: str
    verdict: judging.Verdict

    def line(self):
        verdict = self.verdict
        error = f" {verdict.error:.3g} ulp, {verdict.allowed:g} allowed," if verdict.allowed else ""
        return f"{self.op} {self.dtype} {self.layout} [{self.call}] {self.what}:{error} {verdict.said}"


def tuple_of(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def precise(tensor):
    return tensor.to(torch.float64) if values.is_floating(tensor) else tensor


class Comparison:
    """All calls of a run; `differences` and counts are its result. What is right PyTorch calculates in float64 on the CPU;
    what it gives on the device in the type itself is good enough too, and says of which type a result is."""

    def __init__(self, library, seed, torch_device="cpu"):
        self.library, self.seed, self.torch_device = library, seed, torch_device
        self.differences, self.compared, self.without_second = [], 0, set()

    def run(self, op, call):
        """In each of its types and layouts."""
        for dtype in call.types:
            for layout in call.layouts:
                run = CallRun(self, op, call, dtype, layout)
                try:
                    run.run()
                except ReferenceFails as error:
                    run.note_error("reference", error)


class CallRun:
    """One call in one type and one layout."""

    def __init__(self, comparison, op, call, dtype, layout):
        self.all, self.op, self.call, self.dtype, self.layout = comparison, op, call, dtype, layout
        self.library = comparison.library
        name = f"{comparison.seed} {op} {call.text()} {dtype}"
        self.source = values.Source(zlib.crc32(name.encode()), dtype)

    def note(self, what, verdict):
        self.all.compared += 1
        if not verdict.ok:
            self.all.differences.append(Difference(self.op, self.dtype, self.layout, what, self.call.text(), verdict))

    def note_error(self, what, error):
        self.note(what, judging.Verdict(False, said=f"{type(error).__name__} {error}"[:300]))

    def allowed(self, ulps):
        # A half type's own rounding is one unit; the rest happens in float32.
        return max(1.0, ulps / 4) if self.dtype in HALF else ulps

    def place(self, tensor, exact):
        """In float64 on the CPU, or as it is on the device."""
        return precise(tensor).cpu() if exact else tensor.to(self.all.torch_device)

    def torch_call(self, tensors, exact):
        """PyTorch's results, or None where it has no such kernel for the type."""
        given = [self.place(tensor, exact) for tensor in tensors]
        try:
            return tuple_of(self.call.reference(*given))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if exact:
                raise ReferenceFails(str(error)) from error
            return None

    def run(self):
        laid = [values.lay(self.library, tensor, self.layout) for tensor in self.call.make(self.source)]
        arrays, tensors = [array for array, _ in laid], [tensor for _, tensor in laid]
        try:
            with self.library.mode(training=self.call.training):
                results = self.library.invoke(self.op, arrays, self.call.attributes)
            if self.call.outputs is not None:
                results = [results[i] for i in self.call.outputs]
            results = [array.tensor() for array in results + [arrays[i] for i in self.call.mutated]]
        except SluiceError as error:
            self.note_error("call", error)
            return
        self.check_values(tensors, results)
        variables = self.variables(tensors)
        if variables and all(self.dtype in values.FLOATING for _ in variables):
            try:
                GradientRun(self, arrays, tensors, variables, results).run()
            except SluiceError as error:
                self.note_error("gradient", error)

    def variables(self, tensors):
        if self.call.gradients is not None:
            return list(self.call.gradients)
        return [i for i, tensor in enumerate(tensors) if values.is_floating(tensor)]

    def check_values(self, tensors, results):
        call = self.call
        wanted = self.torch_call(tensors, exact=True)
        own = self.torch_call(tensors, exact=False)
        for i in range(len(wanted)):
            if i >= len(results):
                self.note(f"result {i}", judging.Verdict(False, said=f"there are {len(results)} results"))
                continue
            other = own[i].cpu() if own is not None else None
            if other is not None and not call.dtypes_differ and other.dtype != results[i].dtype:
                self.note(
                    f"type of result {i}", judging.Verdict(False, said=f"{results[i].dtype}, PyTorch {other.dtype}")
                )
                continue
            truth = wanted[i].detach().cpu()
            self.note(
                f"result {i}" if i else "result",
                judging.judge(results[i], truth, self.allowed(call.ulps), call.floor, call.zero_signs, other),
            )


class GradientRun:
    """Gradients of one call for random heads, and gradients of these for random weights."""

    def __init__(self, run, arrays, tensors, variables, results):
        self.of, self.arrays, self.tensors, self.variables = run, arrays, tensors, variables
        self.dtypes = [client.NAMES[result.dtype] for result in results]
        self.library, self.call = run.library, run.call

    def run(self):
        wanted, heads, weights, wanted_second = self.reference(exact=True)
        if wanted is None:
            return
        library = self.library
        for i in self.variables:
            library.attach_grad(self.arrays[i])
        head_arrays = [values.lay(library, head, self.of.layout)[0] for head in heads]
        for array in head_arrays:
            library.attach_grad(array)
        with library.mode(recording=True, training=self.call.training):
            results = library.invoke(self.of.op, self.arrays, self.call.attributes)
            if self.call.outputs is not None:
                results = [results[i] for i in self.call.outputs]
            kept = [results[i] for i in self.differentiated]
            asked = [self.arrays[i] for i in self.variables]
            first = library.gradients(kept, head_arrays, asked, create_graph=bool(wanted_second))
            other = self.reference(exact=False)
            self.judge("gradient", first, wanted, other[0])
            if wanted_second:
                self.check_second(first, asked + head_arrays, weights, wanted_second, other[3])

    def check_second(self, first, asked, weights, wanted, other):
        weight_arrays = [values.lay(self.library, weights[i], self.of.layout)[0] for i in self.recorded]
        heads = [first[i] for i in self.recorded]
        try:
            second = self.library.gradients(heads, weight_arrays, asked)
        except SluiceError as error:
            if error.kind == "unsupported":
                self.of.all.without_second.add(f"{self.of.op}: {str(error).splitlines()[0]}")
                return
            if error.kind != "autograd_error":
                raise
            # One is a constant, which is off the tape, and in PyTorch on it with zeros: the others alone.
            parts = [part for part in map(self.alone, heads, weight_arrays, [asked] * len(heads)) if part is not None]
            second = (
                [sum_of(gradients) for gradients in zip(*parts)]
                if parts
                else [torch.zeros_like(w.cpu()) for w in wanted]
            )
        self.judge("second gradient", second, wanted, other)

    def alone(self, head, weight, asked):
        try:
            return [array.tensor() for array in self.library.gradients([head], [weight], asked)]
        except SluiceError as error:
            if error.kind != "autograd_error":
                raise
            return None

    def judge(self, what, arrays, wanted, other):
        # Formulas that are recorded round each step to the type.
        allowed = self.of.allowed(self.call.gradient_ulps * (4 if what == "second gradient" else 1))
        for i, array in enumerate(arrays):
            alternative = other[i].detach().cpu() if other else None
            truth = wanted[i].detach().cpu()
            # Sums of terms that cancel are held to the size of these, which is that of the heads at least.
            floor = max(1.0, largest(truth)) if self.call.floor == "largest" else max(self.call.floor, 1.0)
            got = array if isinstance(array, torch.Tensor) else array.tensor()
            verdict = judging.judge(got, truth, allowed, floor, False, alternative)
            self.of.note(f"{what} {i}", verdict)

    def random(self, like, dtype):
        tensor = self.of.source.values(*like.shape, low=-2.0, high=2.0, dtype=dtype)
        laid = values.lay(self.library, tensor, self.of.layout)[1]
        return laid

    def reference(self, exact):
        """(gradients, heads, weights, second gradients) by PyTorch; None where it has none."""
        of = self.of
        inputs = [of.place(tensor, exact).detach() for tensor in self.tensors]
        leaves = [inputs[i].requires_grad_() for i in self.variables]
        try:
            results = tuple_of(self.call.reference(*inputs))
            if exact:
                count = len(results) - len(self.call.mutated)
                self.differentiated = [i for i in range(count) if values.is_floating(results[i])]
                self.heads = [self.random(results[i], self.dtypes[i]) for i in self.differentiated]
                self.weights = [
                    self.random(leaf, client.NAMES[self.tensors[i].dtype]) for i, leaf in zip(self.variables, leaves)
                ]
            heads = [of.place(head, exact).detach().requires_grad_() for head in self.heads]
            taken = [results[i] for i in self.differentiated]
            pairs = [(result, head) for result, head in zip(taken, heads) if result.requires_grad]
            if not pairs:
                return ([torch.zeros_like(leaf) for leaf in leaves] if taken else None), self.heads, self.weights, None
            first = gradients_of([p[0] for p in pairs], [p[1] for p in pairs], leaves, self.call.second)
            second = self.second_of(first, leaves + heads, exact) if self.call.second else None
            return filled(first, leaves), self.heads, self.weights, second
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if exact:
                raise ReferenceFails(f"gradient: {error}") from error
            return None, None, None, None

    def second_of(self, first, leaves, exact):
        weights = [self.of.place(weight, exact) for weight in self.weights]
        recorded = [i for i, gradient in enumerate(first) if gradient is not None and gradient.requires_grad]
        pairs = [(first[i], weights[i]) for i in recorded]
        if not pairs:
            return None
        if exact:
            self.recorded = recorded
        try:
            second = gradients_of([p[0] for p in pairs], [p[1] for p in pairs], leaves, False)
        except (RuntimeError, NotImplementedError):
            return None  # PyTorch has no derivative of its derivative
        return filled(second, leaves)


def gradients_of(results, heads, leaves, create_graph):
    return torch.autograd.grad(results, leaves, heads, create_graph=create_graph, allow_unused=True)


def sum_of(tensors):
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors).sum(0, dtype=tensors[0].dtype)


def filled(gradients, leaves):
    return [torch.zeros_like(leaf) if gradient is None else gradient for gradient, leaf in zip(gradients, leaves)]


def largest(tensor):
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
