"""Functions that PyTorch lacks or knows to fewer digits than float64 holds."""

import math

import torch


def lifted(x):
    return x if x.is_floating_point() else x.to(torch.float32)


def sinc(x):
    """sin(pi x) / (pi x): the sine of what is left of x beside a whole number, so that it is 0 at these."""
    x = lifted(x)
    whole = torch.round(x.detach())
    sign = 1 - 2 * torch.remainder(whole, 2)
    near = x.detach().abs() < 0.25  # where the quotient and its derivative lose digits
    apart = torch.where(near, torch.ones_like(x), x)
    square = torch.where(near, math.pi * x, torch.zeros_like(x)) ** 2
    series = sum((-square) ** k / float(math.factorial(2 * k + 1)) for k in range(12))
    return torch.where(near, series, sign * torch.sin(math.pi * (x - whole)) / (math.pi * apart))


def polygamma(n, x):
    """By Hurwitz' zeta function, which PyTorch's own takes from n = 2 on; for n = 1 it has ten digits less."""
    if n == 0:
        return Digamma.apply(lifted(x))
    return Polygamma.apply(lifted(x), n)


class Polygamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        wide = x.to(torch.float64)
        negative = wide < 0
        # Below 0 by the recurrence, up to where the series serves; at a whole number it is a pole.
        value, place = torch.zeros_like(wide), wide
        for _ in range(8):
            below = place < 0.5
            value = value + torch.where(
                below,
                torch.abs(place).pow(-(n + 1)) * torch.where(place < 0, (-1.0) ** (n + 1), 1.0),
                torch.zeros_like(wide),
            )
            place = torch.where(below, place + 1, place)
        value = value + torch.special.zeta(torch.full_like(place, n + 1), place)
        value = torch.where(negative & (wide < -7.5), torch.polygamma(n, wide), value)
        value = torch.where(
            (wide <= 0) & (wide == torch.floor(wide)), math.inf, torch.where(wide == math.inf, 0.0, value)
        )
        return ((-1.0) ** (n + 1) * math.factorial(n) * value).to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Polygamma.apply(x, ctx.n + 1), None


class Digamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Polygamma.apply(x, 1)


class GammaLn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Digamma.apply(x)


class Gamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tensor(
            [gamma_of(value) for value in x.flatten().tolist()], dtype=x.dtype, device=x.device
        ).reshape(x.shape)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Gamma.apply(x) * Digamma.apply(x)


def gamma_of(x):
    """As C's tgamma."""
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:  # a pole
        return math.nan


class Cbrt(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        wide = torch.tensor(
            [math.cbrt(value) for value in x.flatten().tolist()], dtype=x.dtype, device=x.device
        ).reshape(x.shape)
        ctx.save_for_backward(wide)
        return wide

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return dy / (y * y * 3)


def digamma(x):
    return Digamma.apply(lifted(x))


def gammaln(x):
    return GammaLn.apply(lifted(x))


def gamma(x):
    return Gamma.apply(lifted(x))


def cbrt(x):
    return Cbrt.apply(lifted(x))


def gelu(x):
    """By erfc, which keeps its digits far below zero."""
    return x * (torch.special.erfc(-x * math.sqrt(0.5)) * 0.5)


def gelu_tanh(x):
    return x * torch.sigmoid(x * (x * x * (2 * 0.044715 * math.sqrt(2 / math.pi)) + 2 * math.sqrt(2 / math.pi)))


def celu(x, alpha):
    """PyTorch's derivative rounds 1 / alpha to float32."""
    return torch.where(x > 0, x, alpha * torch.expm1(torch.where(x > 0, 0.0, x) / alpha))


def clip(x, low, high):
    """On a bound the gradient is 1, as PyTorch's was before 2.12."""
    return torch.where((x >= low) & (x <= high), x, torch.clamp(x.detach(), low, high))


def nanmean(x, axes, keepdims):
    """An element that is NaN has the gradient 0 in a row of nothing else too."""
    lost = torch.isnan(x)
    total = torch.where(lost, torch.zeros_like(x), x).sum(axes, keepdim=keepdims)
    return total / (~lost).sum(axes, keepdim=keepdims)
