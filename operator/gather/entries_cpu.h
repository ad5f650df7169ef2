#pragma once

#include <algorithm>
#include <cstdint>

#include <sluice/operator/gather/kernels.h>

namespace sluice::detail {

/// Rows of so many elements that are worth a worker.
inline std::int64_t grain_of(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements_each));
}

/// The entry at position i. Throws IndexError.
inline std::int64_t entry_at(const KernelCall& call, const Taking& taking, std::int64_t i) {
  const Placing::Named named = taking.place.at(i);
  require<IndexError>(named.entry >= 0, [&] {
    return message(
        call.op.name,
        ": index ",
        named.index,
        " is out of bounds for axis ",
        taking.axis + named.axis,
        " with size ",
        taking.place.extents[named.axis]);
  });
  return named.entry;
}

}  // namespace sluice::detail
