"""Steps of optimizers, from states that are not empty."""

import math

import torch

import values
from table import Call, compare

RATE, STEPS = 0.05, 3


def step(optimizer, states):
    """One step of PyTorch's optimizer on a weight, with what it has kept so far; the weight and the states after it."""

    def call(weight, gradient, *kept):
        parameter = torch.nn.Parameter(weight.clone())
        parameter.grad = gradient
        made = optimizer([parameter])
        for name, value in states(*kept).items():
            made.state[parameter][name] = value
        made.step()
        return parameter.detach(), made.state[parameter]

    return call


def update(name, optimizer, states, after, count, told, label=""):
    """`states(*kept)` names Sluice's states as PyTorch does, `after(state)` are Sluice's of what PyTorch has then."""

    def make(source):
        shape = (4, 3)
        # Small ones behind the first: a mean square is no less than the square of the mean.
        highest = [1.0] + [0.5] * count
        return [
            source.values(*shape),
            source.values(*shape),
            *(source.values(*shape, low=high - 0.4, high=high) for high in highest[:count]),
        ]

    def reference(weight, gradient, *kept):
        new, state = step(optimizer, states)(weight, gradient, *kept)
        return (new, *after(state))

    compare(
        name,
        Call(
            make,
            reference,
            {"learning_rate": RATE, **told},
            values.PRECISE,
            label,
            gradients=(),
            outputs=(),
            mutated=(0, *range(2, 2 + count)),
            layouts=("contiguous",),
            ulps=16,
            floor=1.0,
        ),
    )


def plain(_):
    return ()


for decay in (0.0, 0.1):
    told = {"weight_decay": decay}
    # m of Sluice and MXNet holds the rate: it is -rate times PyTorch's buffer.
    update(
        "sgd_update", lambda p, decay=decay: torch.optim.SGD(p, RATE, weight_decay=decay), lambda: {}, plain, 0, told
    )
    for name, nesterov in (("sgd_update", False), ("nag_update", True)):
        update(
            name,
            lambda p, decay=decay, nesterov=nesterov: torch.optim.SGD(
                p, RATE, 0.9, weight_decay=decay, nesterov=nesterov
            ),
            lambda m: {"momentum_buffer": -m / RATE},
            lambda state: (-RATE * state["momentum_buffer"],),
            1,
            {**told, "momentum": 0.9, **({} if nesterov else {"momenta": True})},
        )
    correction = math.sqrt(1 - 0.99**STEPS)

    def moments(m, v):
        return {"step": torch.tensor(float(STEPS - 1)), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}

    def moments_after(state):
        return state["exp_avg"], state["exp_avg_sq"]

    betas = {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}
    # Sluice and MXNet add epsilon to the root that is not corrected.
    update(
        "adam_update",
        lambda p, decay=decay, c=correction: torch.optim.Adam(p, RATE, (0.8, 0.99), 1e-3 / c, weight_decay=decay),
        moments,
        moments_after,
        2,
        {**told, **betas, "steps": (STEPS,), "learning_rate": RATE},
    )
    update(
        "adamw_update",
        lambda p, decay=decay: torch.optim.AdamW(p, RATE, (0.8, 0.99), 1e-3, weight_decay=decay),
        moments,
        moments_after,
        2,
        {**told, **betas, "steps": (STEPS,)},
    )
    update(
        "adamax_update",
        lambda p, decay=decay: torch.optim.Adamax(p, RATE, (0.8, 0.9), 0, weight_decay=decay),
        lambda m, u: {"step": torch.tensor(float(STEPS - 1)), "exp_avg": m.clone(), "exp_inf": u.clone()},
        lambda state: (state["exp_avg"], state["exp_inf"]),
        2,
        {**told, "beta1": 0.8, "beta2": 0.9, "steps": (STEPS,)},
    )
    for schedule in (0.0, 0.004, 2.0):
        product = math.prod(0.8 * (1 - 0.5 * 0.96 ** (t * schedule)) for t in range(1, STEPS))
        update(
            "nadam_update",
            lambda p, decay=decay, schedule=schedule: torch.optim.NAdam(
                p, RATE, (0.8, 0.99), 1e-3, weight_decay=decay, momentum_decay=schedule
            ),
            lambda m, v, product=product: {**moments(m, v), "mu_product": torch.tensor(product, dtype=torch.float64)},
            moments_after,
            2,
            {**told, **betas, "schedule_decay": schedule, "steps": (STEPS,)},
        )
    for momentum in (0.0, 0.7):
        for centered in (False, True):
            # Centred, Sluice keeps a momentum of 0 too; what it then holds PyTorch does not say.
            if centered and not momentum:
                continue
            names = ["square_avg"] + ["momentum_buffer"] * (momentum > 0) + ["grad_avg"] * centered

            def kept(*states, names=names):
                return {"step": torch.tensor(2.0), **{name: state.clone() for name, state in zip(names, states)}}

            update(
                "rmsprop_update",
                lambda p, d=decay, m=momentum, c=centered: torch.optim.RMSprop(
                    p, RATE, 0.9, 1e-3, weight_decay=d, momentum=m, centered=c
                ),
                kept,
                lambda state, names=names: tuple(state[name] for name in names),
                len(names),
                {**told, "rho": 0.9, "epsilon": 1e-3, "momentum": momentum, "centered": centered},
            )
    update(
        "adagrad_update",
        lambda p, decay=decay: torch.optim.Adagrad(p, RATE, weight_decay=decay, eps=1e-3),
        lambda h: {"step": torch.tensor(2.0), "sum": h.clone()},
        lambda state: (state["sum"],),
        1,
        {**told, "epsilon": 1e-3},
    )
    update(
        "adadelta_update",
        lambda p, decay=decay: torch.optim.Adadelta(p, RATE, 0.9, 1e-3, weight_decay=decay),
        lambda h, u: {"step": torch.tensor(2.0), "square_avg": h.clone(), "acc_delta": u.clone()},
        lambda state: (state["square_avg"], state["acc_delta"]),
        2,
        {**told, "rho": 0.9, "epsilon": 1e-3},
    )


def factored(shape, decay, clip):
    """Adafactor, from means of rows and of columns, or of elements where there are no rows."""
    matrices = len(shape) > 1
    means = (shape[:-1], shape[:-2] + shape[-1:]) if matrices else (shape, (0,))
    kept = {"row_var": -1, "col_var": -2} if matrices else {"variance": None}

    def make(source):
        drawn = [source.values(*shape) for _ in range(2)]
        return drawn + [source.values(*mean, low=0.5, high=1.0) for mean in means]

    def states(*given):
        named = {
            name: state.clone() if axis is None else state.clone().unsqueeze(axis)
            for (name, axis), state in zip(kept.items(), given)
        }
        return {"step": torch.tensor(float(STEPS - 1)), **named}

    def reference(weight, gradient, *given):
        def optimizer(parameters):
            return torch.optim.Adafactor(parameters, RATE, eps=(1e-6, 1e-3), d=clip, weight_decay=decay)

        new, state = step(optimizer, states)(weight, gradient, *given)
        after = [state[name] if axis is None else state[name].squeeze(axis) for name, axis in kept.items()]
        return (new, *after, *given[len(after) :])

    told = {"learning_rate": RATE, "weight_decay": decay, "steps": (STEPS,), "epsilon1": 1e-6, "clip_threshold": clip}
    compare(
        "adafactor_update",
        Call(
            make,
            reference,
            told,
            values.PRECISE,
            f"{shape}",
            gradients=(),
            outputs=(),
            mutated=(0, 2, 3),
            layouts=("contiguous",),
            ulps=16,
            floor=1.0,
        ),
    )


for shape in ((4, 3), (2, 5, 3), (130, 70), (7,), ()):
    factored(shape, 0.0, 1.0)
    factored(shape, 0.1, 1.5)


def clipping(*gradients):
    norm = torch.linalg.vector_norm(torch.cat([g.flatten().to(torch.float64) for g in gradients]))
    return torch.stack([norm, torch.clamp(2.0 / norm, max=1.0), torch.ones_like(norm)])


compare(
    "gradient_guard",
    Call(
        lambda source: [source.values(4, 3), source.values(5)],
        clipping,
        {"max_norm": 2.0},
        values.FLOATING,
        gradients=(),
        ulps=16,
    ),
)
