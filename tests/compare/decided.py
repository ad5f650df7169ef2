"""Differences that are decided: Sluice does otherwise on purpose, or PyTorch is the one that errs."""

import dataclasses
import re


@dataclasses.dataclass
class Decision:
    """A difference of these operators is expected where all three patterns fit."""

    ops: str
    what: str
    where: str  # a pattern of type, layout and call
    reason: str
    met: int = 0

    def fits(self, difference):
        return (
            difference.op in self.ops.split()
            and re.match(self.what, difference.what) is not None
            and re.search(self.where, f"{difference.dtype} {difference.layout} {difference.call}") is not None
        )


SPECIAL = "special values"
DECISIONS = [
    Decision("add multiply", "type", "bool and bool", "bool counts as int64 in arithmetic; PyTorch keeps it"),
    Decision(
        "abs sign l1_norm max_norm", "result|gradient", SPECIAL, "the sign of NaN is NaN, as in NumPy; PyTorch's is 0"
    ),
    Decision("heaviside", "result", SPECIAL, "NaN gives NaN, as in NumPy; PyTorch's 0"),
    Decision(
        "relu6 hard_tanh hard_shrink softshrink max min",
        "gradient",
        SPECIAL,
        "NaN passes backward; PyTorch's vectors and its plain loops differ here",
    ),
    Decision(
        "square sinc mod fmod divmod hard_swish l2_norm frexp",
        "result|gradient",
        f"float64 .*{SPECIAL}",
        "PyTorch's float64 overflows on the way to a number that fits",
    ),
    Decision(
        "arctan2",
        "gradient",
        f"float64 .*{SPECIAL}",
        "PyTorch's float64 overflows on the way; beside an infinity it is 0",
    ),
    Decision(
        "xlogy xlog1py",
        "gradient 1",
        SPECIAL,
        "what is below the smallest normal number is flushed to 0 before it is divided",
    ),
    Decision("arccosh", "gradient", SPECIAL, "outside the domain there is no gradient; PyTorch gives 0 at -inf"),
    Decision(
        "digamma polygamma",
        "result|gradient",
        SPECIAL,
        "at -inf, where poles become dense, Sluice gives their infinity",
    ),
    Decision("mod fmod divmod", "gradient 1", SPECIAL, "where the remainder is NaN its gradient is NaN"),
    Decision("hypot", "gradient", SPECIAL, "0 at the origin; PyTorch's NaN"),
    Decision("copysign", "gradient", SPECIAL, "a NaN has a sign, which counts"),
    Decision(
        "logaddexp logaddexp2 logsumexp", "gradient", SPECIAL, "equal infinities share the gradient; PyTorch's NaN"
    ),
    Decision("softsign gelu gelu_tanh", "gradient", SPECIAL, "the limit at infinity; PyTorch's NaN"),
    Decision("mish", "result", SPECIAL, "numbers below the smallest normal one are flushed to 0 on the way"),
    Decision(
        "prod nanprod", "gradient", SPECIAL, "a NaN's own gradient may be NaN; PyTorch's float64 overflows on the way"
    ),
    Decision(
        "variance standard_deviation",
        "second gradient",
        r"^\S+ \S+ \((0,|2, 0\))",
        "of nothing no element has a share: 0; PyTorch's NaN",
    ),
    Decision(
        "standard_deviation",
        "second gradient",
        "stride-0",
        "of equal elements, where it is 0, the gradient is 0; PyTorch's NaN",
    ),
    Decision(
        "standard_deviation",
        "result|gradient",
        SPECIAL,
        "the variance overflows first; PyTorch adds up in float64 on CPUs",
    ),
]


def decision_on(difference):
    """The decision, or None for a difference that counts."""
    for decision in DECISIONS:
        if decision.fits(difference):
            decision.met += 1
            return decision
    return None
