"""What ONNX's operators are in Sluice, by family: importing this fills the table."""

from . import elementwise, images, neural, recurrent, shapes, sums  # noqa: F401
