#pragma once

// Arrays to and from other libraries without a copy, by DLPack (dmlc.github.io/dlpack): NumPy, PyTorch, JAX and others.
#include <cstdint>
#include <optional>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace sluice {

/// Which stream orders work on a GPU's array between two libraries, as the `stream` of Python's __dlpack__ says it: 1
/// is CUDA's legacy default stream, 2 the calling thread's default stream, -1 says that nobody need wait, any other
/// number but 0 is a cudaStream_t. Without one: the legacy default stream. Of a CPU's array: none, or -1.
using DlpackStream = std::optional<std::int64_t>;

struct DlpackOptions {
  DlpackStream stream = {};  // of the consumer
  bool read_only = false;    // the consumer only reads: earlier readers need not be done
  bool copy = false;         // the consumer gets memory of its own
};

/// The array for another library, which reads and writes its memory until it calls the deleter; that may be from any
/// thread, also after the engine has ended. Comes after all tasks pushed so far that use the array:
/// - on a CPU the caller waits for them (with read_only, for those that write it), and gets the error of one that
/// failed;
/// - on a GPU options.stream waits for them, the caller only until they have been given to the GPU.
/// Tasks pushed later know nothing of the consumer: before they write what it reads, or read what it writes, its work
/// is to be done (on a CPU) or given back by import_stream() with this array's from_dlpack(). The tape does not see
/// what a consumer writes. Arrays of constants that are read-only here (imported so) are so there. Throws ValueError
/// for an undefined array, one without memory (traced), a wrong stream, and a read-only one unless versioned or copied;
/// UnsupportedError for a view that runs backwards, unless copied; AutogradError for an array on the tape, of which
/// detach() is to be exported; what export_stream() and waits throw.
SLUICE_API DLManagedTensor* to_dlpack(
    const NDArray& array, const DlpackOptions& options = {}, SourceLocation site = SourceLocation::current());
/// The same as version 1.0, with the flags "read only" and "copied".
SLUICE_API DLManagedTensorVersioned* to_dlpack_versioned(
    const NDArray& array, const DlpackOptions& options = {}, SourceLocation site = SourceLocation::current());

/// An array of the current engine on the memory of another library, with its strides, no copy. The tensor is taken
/// over: its deleter is called once, also where this throws. It is called when the last array on that memory is gone
/// and all tasks on it are done, on a GPU too, for which nobody waits; on whichever thread that is. What the producer
/// has put on `stream` comes before what is pushed here (on a CPU its work is done). Arrays of a read-only tensor, and
/// those of which elements share memory, cannot be written: pushing a task that does is a ValueError. Throws ValueError
/// for no tensor, no data, data that lies across elements, a wrong stream; ShapeError for more than 8 axes, negative
/// extents and more bytes than can be counted; DTypeError for types that arrays have not, and lanes; DeviceError for
/// other devices; UnsupportedError for negative strides and another major version; OutOfMemory; what import_stream()
/// throws.
SLUICE_API NDArray
from_dlpack(DLManagedTensor* tensor, DlpackStream stream = {}, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray from_dlpack(
    DLManagedTensorVersioned* tensor, DlpackStream stream = {}, SourceLocation site = SourceLocation::current());

}  // namespace sluice
