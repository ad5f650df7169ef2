"""The table, by family: importing this fills it."""

from . import binary, images, indices, linalg, losses, norms, products, reductions, shapes, unary, updates, volumes  # noqa: F401
from . import without  # noqa: F401
