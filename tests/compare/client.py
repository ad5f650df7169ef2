"""Sluice from Python, through its C interface (<sluice/c_api.h>): arrays, operators by name, the tape."""

import ctypes
import pathlib

import torch

DTYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_OUTPUTS = 16
STATUSES = (
    "ok value_error shape_error dtype_error device_error index_error file_error unsupported library_error "
    "autograd_error engine_stopped deadlock thread_error cancelled forked task_failed out_of_memory cuda_error "
    "device_lost other_error"
).split()


class SluiceError(Exception):
    """What a call of the C interface said: its class, as `index_error`, and its message."""

    def __init__(self, status, message):
        super().__init__(f"{STATUSES[status]}: {message}")
        self.kind = STATUSES[status]


class Word(str):
    """The text of an attribute that is a name, as a type's or a device's: it stands without quotation marks."""


class Info(ctypes.Structure):
    _fields_ = [
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("size", ctypes.c_int64),
        ("element_bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_char_p),
        ("is_gpu", ctypes.c_int),
        ("device_index", ctypes.c_int),
    ]


def attribute_text(value):
    """The value as docs/operators.md writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (tuple, list)):
        return "(" + "".join(attribute_text(part) + ", " for part in value).rstrip(" ") + ")" if value else "()"
    return repr(value)


def attributes_text(attributes):
    return ", ".join(f"{name}={attribute_text(value)}" for name, value in attributes.items())


class Array:
    """A handle on an array; given back when the object goes."""

    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def __del__(self):
        self.library.c.sluice_array_release(self.handle)

    def info(self):
        info = Info()
        self.library.check(self.library.c.sluice_array_describe(self.handle, ctypes.byref(info)))
        return info

    @property
    def shape(self):
        info = self.info()
        return tuple(info.shape[axis] for axis in range(info.ndim))

    @property
    def strides(self):
        info = self.info()
        return tuple(info.strides[axis] for axis in range(info.ndim))

    @property
    def dtype(self):
        return self.info().dtype.decode()

    def tensor(self):
        """The elements, once all work on them has ended, as a tensor in the host's memory."""
        info = self.info()
        shape = tuple(info.shape[axis] for axis in range(info.ndim))
        result = torch.empty(shape, dtype=DTYPES[info.dtype.decode()])
        bytes_ = info.size * info.element_bytes
        self.library.check(self.library.c.sluice_array_read(self.handle, ctypes.c_void_p(result.data_ptr()), bytes_))
        return result


class Mode:
    """Calls of this thread are recorded, and behave as in training, within `with`."""

    def __init__(self, library, recording, training):
        self.library, self.recording, self.training = library, recording, training
        self.mode = ctypes.c_void_p()

    def __enter__(self):
        self.library.check(
            self.library.c.sluice_begin_mode(int(self.recording), int(self.training), ctypes.byref(self.mode))
        )

    def __exit__(self, *_):
        self.library.c.sluice_end_mode(self.mode)


class Library:
    """libsluice.so, and the device on which its arrays are made."""

    def __init__(self, path, device="cpu"):
        self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
        self.device = device
        self.c.sluice_error_message.restype = ctypes.c_char_p
        for name in ("sluice_array_release", "sluice_end_mode"):
            getattr(self.c, name).restype = None
            getattr(self.c, name).argtypes = [ctypes.c_void_p]
        self.c.sluice_array_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.c.sluice_array_describe.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.c.sluice_attach_grad.argtypes = [ctypes.c_void_p]
        self.c.sluice_seed.argtypes = [ctypes.c_uint64]

    def check(self, status):
        if status != 0:
            raise SluiceError(status, self.c.sluice_error_message().decode(errors="replace"))

    def operators(self):
        """The names of the registry."""
        names = []
        visitor = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
        self.check(self.c.sluice_each_operator(visitor(lambda name, _: names.append(name.decode())), None))
        return names

    def array(self, tensor):
        """The tensor's elements, row by row, on the library's device."""
        tensor = tensor.detach().cpu().contiguous()
        shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        handle = ctypes.c_void_p()
        self.check(
            self.c.sluice_array_create(
                ctypes.c_void_p(tensor.data_ptr()),
                NAMES[tensor.dtype].encode(),
                tensor.dim(),
                shape,
                self.device.encode(),
                ctypes.byref(handle),
            )
        )
        return Array(self, handle)

    def invoke(self, op, inputs, attributes=None):
        """The results of a call, a list."""
        outputs, count = (ctypes.c_void_p * MOST_OUTPUTS)(), ctypes.c_size_t()
        text = attributes if isinstance(attributes, str) else attributes_text(attributes or {})
        self.check(
            self.c.sluice_invoke(
                op.encode(),
                self.handles(inputs),
                ctypes.c_size_t(len(inputs)),
                text.encode(),
                outputs,
                ctypes.c_size_t(MOST_OUTPUTS),
                ctypes.byref(count),
            )
        )
        return [Array(self, ctypes.c_void_p(outputs[i])) for i in range(count.value)]

    @staticmethod
    def handles(arrays):
        return (ctypes.c_void_p * len(arrays))(*(array.handle for array in arrays))

    def mode(self, recording=False, training=False):
        return Mode(self, recording, training)

    def attach_grad(self, array):
        self.check(self.c.sluice_attach_grad(array.handle))

    def gradients(self, heads, head_grads, variables, create_graph=False):
        """One a variable."""
        out = (ctypes.c_void_p * max(1, len(variables)))()
        self.check(
            self.c.sluice_gradients(
                self.handles(heads),
                self.handles(head_grads),
                ctypes.c_size_t(len(heads)),
                self.handles(variables),
                ctypes.c_size_t(len(variables)),
                int(create_graph),
                out,
            )
        )
        return [Array(self, ctypes.c_void_p(out[i])) for i in range(len(variables))]

    def wait_all(self):
        self.check(self.c.sluice_wait_all())

    def seed(self, seed):
        self.check(self.c.sluice_seed(seed))
