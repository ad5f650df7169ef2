#!/usr/bin/env python3
"""Arrays exchanged with NumPy and PyTorch by DLPack, through the C interface: dlpack_exchange.py LIBSLUICE.

What of them, and of GPUs, is not there is skipped, and said. A class of ours stands between: __dlpack__ and
__dlpack_device__ as Python's array API has them.
"""
import ctypes
import gc
import sys
import weakref

CPU, CUDA = 1, 2
READ_ONLY, COPY = 1, 2
I64 = ctypes.c_int64
capsules = ctypes.pythonapi
capsules.PyCapsule_New.restype = ctypes.py_object
capsules.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsules.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsules.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsules.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsules.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Names have to outlive their capsules.
PLAIN, VERSIONED, USED_PLAIN, USED_VERSIONED = b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned"


class Info(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)), ("size", I64),
                ("element_bytes", ctypes.c_size_t), ("dtype", ctypes.c_char_p), ("is_gpu", ctypes.c_int), ("device_index", ctypes.c_int)]


class Skipped(Exception):
    """What the check is about is not there."""


class Sluice:
    """The library. Calls let go of Python's lock: deleters of others may want it on other threads."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.sluice_error_message.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(self.library.sluice_error_message().decode())

    def made(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return Array(self, handle)

    def from_dlpack(self, other, stream=None):
        """As numpy.from_dlpack: asks for a versioned tensor, and takes an old one."""
        asked = {} if stream is None else {"stream": stream}
        try:
            capsule = other.__dlpack__(max_version=(1, 0), **asked)
        except TypeError:
            capsule = other.__dlpack__(**asked)
        versioned = capsules.PyCapsule_IsValid(capsule, VERSIONED)
        tensor = capsules.PyCapsule_GetPointer(capsule, VERSIONED if versioned else PLAIN)
        capsules.PyCapsule_SetName(capsule, USED_VERSIONED if versioned else USED_PLAIN)
        name = "sluice_from_dlpack_versioned" if versioned else "sluice_from_dlpack"
        return self.made(name, ctypes.c_void_p(tensor), I64(stream or 0))

    def invoke(self, name, *inputs, attributes=""):
        handles = (ctypes.c_void_p * len(inputs))(*(x.handle for x in inputs))
        handle, count = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("sluice_invoke", name.encode(), handles, ctypes.c_size_t(len(inputs)), attributes.encode(),
                  ctypes.byref(handle), ctypes.c_size_t(1), ctypes.byref(count))
        return Array(self, handle)

    def wait_all(self):
        self.call("sluice_wait_all")


class Array:
    def __init__(self, sluice, handle):
        self.sluice, self.handle = sluice, handle

    def __del__(self):
        self.sluice.library.sluice_array_release(self.handle)

    def info(self):
        info = Info()
        self.sluice.call("sluice_array_describe", self.handle, ctypes.byref(info))
        return info

    def shape(self):
        info = self.info()
        return tuple(info.shape[i] for i in range(info.ndim))

    def strides(self):
        info = self.info()
        return tuple(info.strides[i] for i in range(info.ndim))

    def __dlpack_device__(self):
        info = self.info()
        return (CUDA, info.device_index) if info.is_gpu else (CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is not on {dl_device}")
        versioned = max_version is not None and max_version[0] >= 1
        tensor = ctypes.c_void_p()
        name = "sluice_to_dlpack_versioned" if versioned else "sluice_to_dlpack"
        self.sluice.call(name, self.handle, I64(stream or 0), ctypes.c_uint(COPY if copy else 0), ctypes.byref(tensor))
        return capsules.PyCapsule_New(tensor, VERSIONED if versioned else PLAIN, None)  # whoever asks takes it


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def imported(name):
    try:
        return __import__(name)
    except ImportError as missing:
        raise Skipped(f"no {name} here: {missing}") from None


def goes_back(other, sluice):
    """`other` is a list with one array of another library: it has to be free once ours has gone."""
    ended = weakref.ref(other[0])
    ours = sluice.from_dlpack(other.pop())
    gc.collect()
    expect(ended() is not None, "the producer's array lives as long as ours")
    doubled = sluice.invoke("add", ours, ours)
    del ours
    sluice.wait_all()
    gc.collect()
    expect(ended() is None, "the producer's array is free once nobody uses it here")
    return doubled


def check_numpy_to_us(sluice):
    np = imported("numpy")
    for dtype in ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                  "float64"):
        theirs = np.arange(24).reshape(4, 6).astype(dtype)
        for view in (theirs, theirs[1:, ::2], theirs.T, theirs[:, :0], theirs[2, 3]):
            view = np.asarray(view)
            ours = sluice.from_dlpack(view)
            expect(ours.shape() == view.shape and ours.info().dtype.decode() == dtype, f"{dtype} {view.shape}")
            if view.size > 1:
                expect(ours.strides() == tuple(s // view.itemsize for s in view.strides), "strides")
            back = np.from_dlpack(ours)
            expect(back.dtype == view.dtype and np.array_equal(back, view), f"back again: {dtype} {view.shape}")
            expect(view.size == 0 or np.shares_memory(back, theirs) or view.ndim == 0, "no copy")
    doubled = goes_back([np.arange(5, dtype=np.float32)], sluice)
    expect(np.from_dlpack(doubled).tolist() == [0, 2, 4, 6, 8], "computed before the memory went back")


def check_numpy_writes(sluice):
    np = imported("numpy")
    theirs = np.zeros(3, np.float32)
    ours = sluice.from_dlpack(theirs)
    values = np.array([1, 2, 3], np.float32)
    sluice.call("sluice_array_write", ours.handle, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(12))
    sluice.call("sluice_array_wait", ours.handle)
    expect(theirs.tolist() == [1, 2, 3], "we write what NumPy sees")
    theirs += 1
    expect(np.from_dlpack(sluice.invoke("square", ours)).tolist() == [4, 9, 16], "NumPy writes what we see")


def check_numpy_refuses(sluice):
    np = imported("numpy")
    for theirs, word in ((np.zeros(3, np.complex64), "code"), (np.zeros(4, np.float32)[::-1], "backwards"),
                         (np.zeros((1,) * 9, np.int8), "axes")):
        try:
            sluice.from_dlpack(theirs)
        except RuntimeError as error:
            expect(word in str(error), f"{word} in {error}")
        else:
            raise AssertionError(f"{theirs.dtype} of {theirs.shape} was taken")
    constant = np.arange(3, dtype=np.float32)
    constant.flags.writeable = False
    try:
        ours = sluice.from_dlpack(constant)
    except BufferError as error:
        raise Skipped(f"this NumPy exports nothing that is read-only: {error}") from None
    try:
        sluice.call("sluice_array_write", ours.handle, constant.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(12))
    except RuntimeError as error:
        expect("frozen" in str(error), f"why not: {error}")
    else:
        raise AssertionError("what is read-only was written")
    again = np.from_dlpack(ours)
    expect(again.tolist() == [0, 1, 2] and not again.flags.writeable, "read-only on the way back")


def exchange(sluice, torch, device, stream):
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
                  torch.float32, torch.float64):
        theirs = torch.arange(24, device=device).reshape(4, 6).to(dtype)
        for view in (theirs, theirs[1:, ::2], theirs.t(), theirs[:, :0], theirs[2, 3]):
            ours = sluice.from_dlpack(view, stream)
            expect(ours.shape() == tuple(view.shape), f"{dtype} {view.shape}")
            back = torch.from_dlpack(ours)
            expect(back.dtype == dtype and torch.equal(back, view), f"back again: {dtype} {view.shape}")
            expect(view.numel() == 0 or back.data_ptr() == view.data_ptr(), "no copy")
    doubled = goes_back([torch.arange(5, device=device, dtype=torch.float32)], sluice)
    expect(torch.from_dlpack(doubled).tolist() == [0, 2, 4, 6, 8], "computed before the memory went back")


def check_torch(sluice):
    exchange(sluice, imported("torch"), "cpu", None)


def check_torch_on_a_gpu(sluice):
    torch = imported("torch")
    if sluice.library.sluice_num_gpus() == 0 or not torch.cuda.is_available():
        raise Skipped("no GPU for both of us here")
    exchange(sluice, torch, "cuda", 1)
    side = torch.cuda.Stream()
    for _ in range(20):  # long work before each hand-over, so that one that comes too early is seen
        with torch.cuda.stream(side):
            theirs = torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(20_000_000)
            theirs += 3
            ours = sluice.from_dlpack(theirs, side.cuda_stream)
        for _ in range(8):
            ours = sluice.invoke("add", ours, ours)
        with torch.cuda.stream(side):
            result = torch.from_dlpack(ours)
            expect(bool((result == 3 * 256).all()), "order through both libraries' streams")


def main():
    sluice = Sluice(sys.argv[1])
    passed, skipped = 0, 0
    for name, check in [(name, check) for name, check in globals().items() if name.startswith("check_")]:
        try:
            check(sluice)
            passed += 1
        except Skipped as why:
            print(f"SKIPPED: {name}: {why}")
            skipped += 1
    print(f"test cases: {passed} passed, 0 failed, {skipped} skipped")
    sys.exit(0 if passed > 0 else 77)


if __name__ == "__main__":
    main()
