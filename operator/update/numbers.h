#pragma once

#include <cstdint>
#include <span>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Writes the words, values of an int64 or float64 array as bits, into `to`, of as many elements. On a
/// GPU they come as arguments of a kernel: no copy from the host has to be waited for.
void write_words(std::span<const std::int64_t> words, const NDArray& to, SourceLocation site);
void write_words(std::span<const double> values, const NDArray& to, SourceLocation site);

extern const Operator k_words;

/// Enqueues the writes on `stream`, a cudaStream_t.
void write_words_on_gpu(std::span<const std::int64_t> words, void* to, void* stream);

}  // namespace sluice::detail
