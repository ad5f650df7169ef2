#pragma once

#include <algorithm>
#include <cstdint>

#include <sluice/engine/parallel.h>
#include <sluice/operator/library/one_thread.h>

namespace sluice::detail {

/// How work of one library call is cut: by shape alone, never by who is free, so that the same call gives the same bits
/// whatever the number of workers. A library whose order of summation follows its team works on each piece alone.
struct Pieces {
  std::int64_t extent = 0;
  std::int64_t length = 0;  // of all but the last

  std::int64_t count() const noexcept { return length == 0 ? 0 : (extent + length - 1) / length; }
  std::int64_t begin(std::int64_t piece) const noexcept { return piece * length; }
  std::int64_t length_of(std::int64_t piece) const noexcept { return std::min(length, extent - piece * length); }
  std::int64_t rest() const noexcept { return length_of(count() - 1); }
};

/// At most `most` pieces, as equal as can be, of whole multiples of `unit` but the last.
inline Pieces pieces_of(std::int64_t extent, std::int64_t most, std::int64_t unit = 1) noexcept {
  const std::int64_t units = std::max<std::int64_t>(1, (extent + unit - 1) / unit);
  const std::int64_t parts = std::clamp<std::int64_t>(most, 1, units);
  return {extent, std::min(extent, (units + parts - 1) / parts * unit)};
}

/// How many pieces work of that many floating operations is worth: each takes about a tenth of a millisecond at least,
/// and more than k_most would keep no machine busier.
inline std::int64_t pieces_worth(double operations) noexcept {
  constexpr double k_piece = 1 << 22, k_most = 32;
  return static_cast<std::int64_t>(std::clamp(operations / k_piece, 1.0, k_most));
}

/// Calls run(piece) for each, on the calling thread and idle workers; a library's team is one thread there.
template <class Run>
void for_each_piece(const Pieces& pieces, Run&& run) {
  parallel_for(pieces.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    const OneThreadScope alone;
    for (std::int64_t piece = begin; piece < end; ++piece)
      run(piece);
  });
}

}  // namespace sluice::detail
