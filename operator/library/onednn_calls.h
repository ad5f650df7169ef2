#pragma once

#ifdef SLUICE_ONEDNN
#include <dnnl.h>

// What is called of oneDNN. Its C++ wrapper, whose inline functions call these, is compiled against a table that is
// filled when the library is loaded. A function that is used and not listed twice here is undefined where we are
// linked.
#define SLUICE_ONEDNN_CALLS(X)                           \
  X(dnnl_dilated_convolution_backward_data_desc_init)    \
  X(dnnl_dilated_convolution_backward_weights_desc_init) \
  X(dnnl_dilated_convolution_forward_desc_init)          \
  X(dnnl_engine_create)                                  \
  X(dnnl_engine_destroy)                                 \
  X(dnnl_matmul_desc_init)                               \
  X(dnnl_memory_create)                                  \
  X(dnnl_memory_desc_equal)                              \
  X(dnnl_memory_desc_get_size)                           \
  X(dnnl_memory_desc_init_by_strides)                    \
  X(dnnl_memory_desc_init_by_tag)                        \
  X(dnnl_memory_destroy)                                 \
  X(dnnl_post_ops_append_eltwise)                        \
  X(dnnl_post_ops_create)                                \
  X(dnnl_post_ops_destroy)                               \
  X(dnnl_primitive_attr_create)                          \
  X(dnnl_primitive_attr_destroy)                         \
  X(dnnl_primitive_attr_set_post_ops)                    \
  X(dnnl_primitive_attr_set_scratchpad_mode)             \
  X(dnnl_primitive_create)                               \
  X(dnnl_primitive_desc_destroy)                         \
  X(dnnl_primitive_desc_iterator_create)                 \
  X(dnnl_primitive_desc_iterator_destroy)                \
  X(dnnl_primitive_desc_iterator_fetch)                  \
  X(dnnl_primitive_desc_query_md)                        \
  X(dnnl_primitive_destroy)                              \
  X(dnnl_primitive_execute)                              \
  X(dnnl_reorder_primitive_desc_create)                  \
  X(dnnl_stream_create)                                  \
  X(dnnl_stream_destroy)

namespace sluice::detail {

struct OnednnCalls {
#define SLUICE_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_ONEDNN_CALLS(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};
/// Filled once onednn_library() is loaded.
extern OnednnCalls onednn_calls;

/// visit(name, place) for each of them.
template <class Visit>
void for_each_call(OnednnCalls& calls, Visit visit) {
#define SLUICE_VISIT(name) visit(#name, calls.name);
  SLUICE_ONEDNN_CALLS(SLUICE_VISIT)
#undef SLUICE_VISIT
}

}  // namespace sluice::detail

// clang-format off
#define dnnl_dilated_convolution_backward_data_desc_init sluice::detail::onednn_calls.dnnl_dilated_convolution_backward_data_desc_init
#define dnnl_dilated_convolution_backward_weights_desc_init sluice::detail::onednn_calls.dnnl_dilated_convolution_backward_weights_desc_init
#define dnnl_dilated_convolution_forward_desc_init sluice::detail::onednn_calls.dnnl_dilated_convolution_forward_desc_init
#define dnnl_engine_create sluice::detail::onednn_calls.dnnl_engine_create
#define dnnl_engine_destroy sluice::detail::onednn_calls.dnnl_engine_destroy
#define dnnl_matmul_desc_init sluice::detail::onednn_calls.dnnl_matmul_desc_init
#define dnnl_memory_create sluice::detail::onednn_calls.dnnl_memory_create
#define dnnl_memory_desc_equal sluice::detail::onednn_calls.dnnl_memory_desc_equal
#define dnnl_memory_desc_get_size sluice::detail::onednn_calls.dnnl_memory_desc_get_size
#define dnnl_memory_desc_init_by_strides sluice::detail::onednn_calls.dnnl_memory_desc_init_by_strides
#define dnnl_memory_desc_init_by_tag sluice::detail::onednn_calls.dnnl_memory_desc_init_by_tag
#define dnnl_memory_destroy sluice::detail::onednn_calls.dnnl_memory_destroy
#define dnnl_post_ops_append_eltwise sluice::detail::onednn_calls.dnnl_post_ops_append_eltwise
#define dnnl_post_ops_create sluice::detail::onednn_calls.dnnl_post_ops_create
#define dnnl_post_ops_destroy sluice::detail::onednn_calls.dnnl_post_ops_destroy
#define dnnl_primitive_attr_create sluice::detail::onednn_calls.dnnl_primitive_attr_create
#define dnnl_primitive_attr_destroy sluice::detail::onednn_calls.dnnl_primitive_attr_destroy
#define dnnl_primitive_attr_set_post_ops sluice::detail::onednn_calls.dnnl_primitive_attr_set_post_ops
#define dnnl_primitive_attr_set_scratchpad_mode sluice::detail::onednn_calls.dnnl_primitive_attr_set_scratchpad_mode
#define dnnl_primitive_create sluice::detail::onednn_calls.dnnl_primitive_create
#define dnnl_primitive_desc_destroy sluice::detail::onednn_calls.dnnl_primitive_desc_destroy
#define dnnl_primitive_desc_iterator_create sluice::detail::onednn_calls.dnnl_primitive_desc_iterator_create
#define dnnl_primitive_desc_iterator_destroy sluice::detail::onednn_calls.dnnl_primitive_desc_iterator_destroy
#define dnnl_primitive_desc_iterator_fetch sluice::detail::onednn_calls.dnnl_primitive_desc_iterator_fetch
#define dnnl_primitive_desc_query_md sluice::detail::onednn_calls.dnnl_primitive_desc_query_md
#define dnnl_primitive_destroy sluice::detail::onednn_calls.dnnl_primitive_destroy
#define dnnl_primitive_execute sluice::detail::onednn_calls.dnnl_primitive_execute
#define dnnl_reorder_primitive_desc_create sluice::detail::onednn_calls.dnnl_reorder_primitive_desc_create
#define dnnl_stream_create sluice::detail::onednn_calls.dnnl_stream_create
#define dnnl_stream_destroy sluice::detail::onednn_calls.dnnl_stream_destroy
// clang-format on
#include <dnnl.hpp>
#endif
