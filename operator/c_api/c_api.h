#pragma once

// A small C interface, which other languages stand on: arrays, operators by name, the tape, waits. C99 and C++.
//
// Every function that can fail returns a sluice_status, and sluice_error_message() says more; no exception crosses.
// Where one fails, what it was to write stays as it was. Functions may be called by any thread; the mode of the tape is
// a state of the calling one. Calls push work on the process' default engine and return; those that say so wait.
#include <stddef.h>
#include <stdint.h>

#define SLUICE_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this interface: raised when something here changes its meaning or goes, never for what is added.
#define SLUICE_C_API_VERSION 1

/// How a call ended: one value a class of errors of engine/error.h.
typedef enum sluice_status {
  SLUICE_OK = 0,
  SLUICE_VALUE_ERROR = 1,
  SLUICE_SHAPE_ERROR = 2,
  SLUICE_DTYPE_ERROR = 3,
  SLUICE_DEVICE_ERROR = 4,
  SLUICE_INDEX_ERROR = 5,
  SLUICE_FILE_ERROR = 6,
  SLUICE_UNSUPPORTED = 7,
  SLUICE_LIBRARY_ERROR = 8,
  SLUICE_AUTOGRAD_ERROR = 9,
  SLUICE_ENGINE_STOPPED = 10,
  SLUICE_DEADLOCK = 11,
  SLUICE_THREAD_ERROR = 12,
  SLUICE_CANCELLED = 13,
  SLUICE_FORKED = 14,
  SLUICE_TASK_FAILED = 15,
  SLUICE_OUT_OF_MEMORY = 16,
  SLUICE_CUDA_ERROR = 17,
  SLUICE_DEVICE_LOST = 18,
  SLUICE_OTHER_ERROR = 19
} sluice_status;

/// A handle on an array, as NDArray is one. Each that a function gives is to be released.
typedef struct sluice_array* sluice_array_t;
/// Recording and training of a thread until sluice_end_mode().
typedef struct sluice_mode* sluice_mode_t;

/// What the shared library was built as; compare it with SLUICE_C_API_VERSION.
SLUICE_C_API int sluice_c_api_version(void);
/// The message of this thread's last call that failed, with the operator and the values; "" before the first, and
/// where there was no memory for it. Good until the thread's next call that fails.
SLUICE_C_API const char* sluice_error_message(void);
/// CUDA devices that this process can use.
SLUICE_C_API int sluice_num_gpus(void);

/// A new array of `ndim` extents at `shape`, of type "float32" (the names of dtype.h) on device "cpu" or "gpu(0)".
/// `values` are its elements in row-major order, of the same type, and may go when the call returns; NULL leaves the
/// elements undefined.
SLUICE_C_API sluice_status sluice_array_create(
    const void* values, const char* dtype, int ndim, const int64_t* shape, const char* device, sluice_array_t* out);
/// Another handle on the same array; NULL for NULL.
SLUICE_C_API sluice_array_t sluice_array_retain(sluice_array_t array);
/// Gives a handle back; work on the array goes on. Nothing for NULL.
SLUICE_C_API void sluice_array_release(sluice_array_t array);

/// What an array is. The pointers are good as long as a handle is.
typedef struct sluice_array_info {
  int ndim;
  const int64_t* shape;
  const int64_t* strides; /* elements */
  int64_t size;           /* elements */
  size_t element_bytes;
  const char* dtype; /* "float32" */
  int is_gpu;        /* 0: a CPU */
  int device_index;
} sluice_array_info;
SLUICE_C_API sluice_status sluice_array_describe(sluice_array_t array, sluice_array_info* out);

/// Copies all elements in row-major order to host memory of exactly `bytes` bytes: waits for what writes the array, and
/// returns that work's error.
SLUICE_C_API sluice_status sluice_array_read(sluice_array_t array, void* to, size_t bytes);
/// Writes all elements, given in row-major order in exactly `bytes` bytes of the array's type: a call like any other,
/// which a variable refuses while this thread records.
SLUICE_C_API sluice_status sluice_array_write(sluice_array_t array, const void* from, size_t bytes);
/// Waits until what was pushed so far has written the array; returns that work's error.
SLUICE_C_API sluice_status sluice_array_wait(sluice_array_t array);
/// Waits for all tasks of the engine; returns an error that nobody has seen yet.
SLUICE_C_API sluice_status sluice_wait_all(void);

/// DLPack's structs, as its header declares them.
struct DLManagedTensor;
struct DLManagedTensorVersioned;
/// What is exported is not written by the consumer; is a copy of its own.
#define SLUICE_DLPACK_READ_ONLY 1
#define SLUICE_DLPACK_COPY 2
/// The array for another library, without a copy; it is kept until the consumer calls the tensor's deleter. `stream` is
/// as Python's __dlpack__ says it, 0 for None: on a GPU that stream waits for what was pushed on the array, on a CPU
/// the caller does. `flags`: some of SLUICE_DLPACK_*. More of it in ndarray/dlpack.h.
SLUICE_C_API sluice_status
sluice_to_dlpack(sluice_array_t array, int64_t stream, unsigned flags, struct DLManagedTensor** out);
SLUICE_C_API sluice_status
sluice_to_dlpack_versioned(sluice_array_t array, int64_t stream, unsigned flags, struct DLManagedTensorVersioned** out);
/// An array on another library's memory. The tensor is taken over: its deleter is called once, by whichever thread is
/// there when nobody uses the memory any more; also where this fails. On a GPU what lies on `stream` comes first.
SLUICE_C_API sluice_status sluice_from_dlpack(struct DLManagedTensor* tensor, int64_t stream, sluice_array_t* out);
SLUICE_C_API sluice_status
sluice_from_dlpack_versioned(struct DLManagedTensorVersioned* tensor, int64_t stream, sluice_array_t* out);

/// Calls visit(name, context) for each operator, plugins' too, by name.
SLUICE_C_API sluice_status sluice_each_operator(void (*visit)(const char* name, void* context), void* context);
/// Calls an operator by name: `attributes` as docs/operators.md writes them, "axis=1, keepdims=true", NULL or "" for
/// none; those that are not named keep their defaults. Writes up to `capacity` handles to `outputs`, and how many to
/// `count`; SLUICE_VALUE_ERROR if there are more. Views are of an array as it lies: reshape refuses strides that it has
/// no view of; copy gives an array without gaps.
SLUICE_C_API sluice_status sluice_invoke(
    const char* op,
    const sluice_array_t* inputs,
    size_t input_count,
    const char* attributes,
    sluice_array_t* outputs,
    size_t capacity,
    size_t* count);
/// Seeds the random numbers of all devices.
SLUICE_C_API sluice_status sluice_seed(uint64_t seed);

/// Whether this thread's calls are written on the tape, and layers behave as in training, until the end of the mode. An
/// operator by its name does what its attributes say in any mode: dropout drops, batch_norm takes the statistics that
/// batch_stats names (batch_norm_predict leaves the running ones as they are).
SLUICE_C_API sluice_status sluice_begin_mode(int recording, int training, sluice_mode_t* out);
/// What it was before. Modes end in the opposite order, on the thread that began them. Nothing for NULL.
SLUICE_C_API void sluice_end_mode(sluice_mode_t mode);
/// Makes the array a variable, with a gradient of zeros.
SLUICE_C_API sluice_status sluice_attach_grad(sluice_array_t array);
/// The gradient of a variable; NULL in `out` where there is none.
SLUICE_C_API sluice_status sluice_grad(sluice_array_t array, sluice_array_t* out);
/// The same memory, off the tape.
SLUICE_C_API sluice_status sluice_detach(sluice_array_t array, sluice_array_t* out);
/// Gradients of `count` heads, stored in the variables. `head_grads` is NULL (ones) or one a head.
SLUICE_C_API sluice_status
sluice_backward(const sluice_array_t* heads, const sluice_array_t* head_grads, size_t count, int retain_graph);
/// The same returned: one a variable, written to `out`; with `create_graph` they are on the tape themselves.
SLUICE_C_API sluice_status sluice_gradients(
    const sluice_array_t* heads,
    const sluice_array_t* head_grads,
    size_t count,
    const sluice_array_t* variables,
    size_t variable_count,
    int create_graph,
    sluice_array_t* out);

#ifdef __cplusplus
}
#endif
