#pragma once

#ifdef SLUICE_ONEDNN
#include <dnnl.h>

// What is called of oneDNN, which is loaded at first use: inside its own namespace the C++ wrapper finds these pointers
// before the functions that they are named after. A function that is used and not listed is undefined where we are
// linked.
#if DNNL_VERSION_MAJOR >= 3
#define SLUICE_ONEDNN_CALLS_OF_VERSION(X)                    \
  X(dnnl_convolution_backward_data_primitive_desc_create)    \
  X(dnnl_convolution_backward_weights_primitive_desc_create) \
  X(dnnl_convolution_forward_primitive_desc_create)          \
  X(dnnl_matmul_primitive_desc_create)                       \
  X(dnnl_memory_desc_clone)                                  \
  X(dnnl_memory_desc_create_with_strides)                    \
  X(dnnl_memory_desc_create_with_tag)                        \
  X(dnnl_memory_desc_query)                                  \
  X(dnnl_memory_desc_destroy)
#else
#define SLUICE_ONEDNN_CALLS_OF_VERSION(X)                \
  X(dnnl_dilated_convolution_backward_data_desc_init)    \
  X(dnnl_dilated_convolution_backward_weights_desc_init) \
  X(dnnl_dilated_convolution_forward_desc_init)          \
  X(dnnl_matmul_desc_init)                               \
  X(dnnl_memory_desc_init_by_strides)                    \
  X(dnnl_memory_desc_init_by_tag)                        \
  X(dnnl_primitive_desc_iterator_create)                 \
  X(dnnl_primitive_desc_iterator_destroy)                \
  X(dnnl_primitive_desc_iterator_fetch)
#endif
// The C++ wrapper of later versions 3 calls these where earlier ones called those without a number.
#if SLUICE_ONEDNN_HANDLES
#define SLUICE_ONEDNN_CALLS_OF_HANDLES(X) X(dnnl_memory_create_v2) X(dnnl_memory_desc_get_size_v2)
#else
#define SLUICE_ONEDNN_CALLS_OF_HANDLES(X)
#endif
#define SLUICE_ONEDNN_CALLS(X)               \
  SLUICE_ONEDNN_CALLS_OF_VERSION(X)          \
  SLUICE_ONEDNN_CALLS_OF_HANDLES(X)          \
  X(dnnl_engine_create)                      \
  X(dnnl_engine_destroy)                     \
  X(dnnl_get_effective_cpu_isa)              \
  X(dnnl_memory_create)                      \
  X(dnnl_memory_desc_equal)                  \
  X(dnnl_memory_desc_get_size)               \
  X(dnnl_memory_destroy)                     \
  X(dnnl_primitive_attr_create)              \
  X(dnnl_primitive_attr_destroy)             \
  X(dnnl_primitive_attr_set_scratchpad_mode) \
  X(dnnl_primitive_create)                   \
  X(dnnl_primitive_desc_destroy)             \
  X(dnnl_primitive_desc_query)               \
  X(dnnl_primitive_desc_query_md)            \
  X(dnnl_primitive_destroy)                  \
  X(dnnl_primitive_execute)                  \
  X(dnnl_reorder_primitive_desc_create)      \
  X(dnnl_stream_create)                      \
  X(dnnl_stream_destroy)

namespace dnnl {
// Filled once sluice::detail::onednn_library() is loaded.
#define SLUICE_POINTER(name) inline decltype(&::name) name = nullptr;
SLUICE_ONEDNN_CALLS(SLUICE_POINTER)
#undef SLUICE_POINTER
}  // namespace dnnl

#include <dnnl.hpp>

namespace sluice::detail {

/// visit(name, pointer) for each of them.
template <class Visit>
void for_each_onednn_call(Visit visit) {
#define SLUICE_VISIT(name) visit(#name, ::dnnl::name);
  SLUICE_ONEDNN_CALLS(SLUICE_VISIT)
#undef SLUICE_VISIT
}

}  // namespace sluice::detail
#endif
