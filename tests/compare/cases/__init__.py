"""The table, by family: importing this fills it."""

from . import binary, images, indices, linalg, losses, norms, products  # noqa: F401
from . import quantiles, reductions, shapes, statistics, unary, updates, volumes, without  # noqa: F401
