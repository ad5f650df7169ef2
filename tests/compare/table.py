"""The table of operators: how PyTorch is asked for the same, or why it cannot be."""

import dataclasses
from typing import Callable

import values


@dataclasses.dataclass
class Call:
    """One way to call an operator: `make(source)` gives the inputs, tensors; `reference` takes these to PyTorch."""

    make: Callable
    reference: Callable
    attributes: dict = dataclasses.field(default_factory=dict)
    types: tuple = values.FLOATING
    label: str = ""
    # Inputs that gradients are asked for: numbers, or None for all floating ones; () for none.
    gradients: tuple | None = None
    second: bool = True  # and those of the gradients
    layouts: tuple = values.LAYOUTS
    training: bool = False
    # What is allowed, in units of the last place of a result of at least `floor`; "largest" is the largest result.
    ulps: float = 4.0
    gradient_ulps: float = 16.0
    floor: float | str = 0.0
    zero_signs: bool = True
    dtypes_differ: bool = False  # for a result that PyTorch gives in another type, on principle
    # The results that are compared, in PyTorch's order; behind them stand the inputs that the call writes.
    outputs: tuple | None = None
    mutated: tuple = ()

    def text(self):
        attributes = ", ".join(f"{name}={value}" for name, value in self.attributes.items())
        return " ".join(part for part in (self.label, attributes) if part)


CALLS = {}
REASONS = {}


def compare(name, *calls):
    """The operator is compared in these ways."""
    CALLS.setdefault(name, []).extend(calls)


def without(reason, *names):
    """PyTorch has nothing to compare these with."""
    for name in names:
        REASONS[name] = reason


def of(*shapes, low=-3.0, high=3.0):
    """A maker of inputs of these shapes within these bounds."""
    return lambda source: [source.values(*shape, low=low, high=high) for shape in shapes]
