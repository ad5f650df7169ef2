#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <sluice/storage/detail/piece.h>

namespace sluice::detail {

/// Free pieces by size: 16 lists a doubling, and bits that say which lists hold any, so that finding, adding and
/// taking away cost a few instructions (two-level segregated fit: Masmano, Ripoll, Crespo and Real, 2004).
class Bins {
 public:
  static constexpr std::uint32_t k_none = ~0u;

  explicit Bins(std::size_t granule) noexcept : shift_(std::countr_zero(granule)) {}

  /// The list that pieces of `bytes` (a multiple of the granule) lie in; those of later lists are larger.
  std::uint32_t bin_of(std::size_t bytes) const noexcept {
    const std::uint64_t granules = bytes >> shift_;
    if (granules < k_steps)
      return static_cast<std::uint32_t>(granules);
    const auto level = static_cast<std::uint32_t>(std::bit_width(granules)) - k_step_bits;
    return level * k_steps + static_cast<std::uint32_t>(granules >> (level - 1)) % k_steps;
  }
  Piece* head(std::uint32_t bin) const noexcept { return lists_[bin].head(); }

  void insert(Piece* piece) noexcept {
    const std::uint32_t bin = bin_of(piece->bytes);
    piece->bin = bin;
    lists_[bin].push_front(piece);
    fine_[bin / k_steps] |= static_cast<std::uint16_t>(1u << bin % k_steps);
    coarse_ |= std::uint64_t{1} << bin / k_steps;
  }
  void erase(Piece* piece) noexcept {
    const std::uint32_t bin = piece->bin;
    lists_[bin].erase(piece);
    if (!lists_[bin].empty())
      return;
    std::uint16_t& fine = fine_[bin / k_steps];
    fine &= static_cast<std::uint16_t>(~(1u << bin % k_steps));
    if (fine == 0)
      coarse_ &= ~(std::uint64_t{1} << bin / k_steps);
  }
  /// The first list after `bin` that holds a piece; k_none if there is none.
  std::uint32_t next_after(std::uint32_t bin) const noexcept {
    const std::uint32_t level = bin / k_steps;
    const unsigned later = fine_[level] & (~1u << bin % k_steps);
    if (later != 0)
      return level * k_steps + static_cast<std::uint32_t>(std::countr_zero(later));
    const std::uint64_t levels = level == k_levels - 1 ? 0 : coarse_ & (~std::uint64_t{1} << level);
    if (levels == 0)
      return k_none;
    const auto found = static_cast<std::uint32_t>(std::countr_zero(levels));
    return found * k_steps + static_cast<std::uint32_t>(std::countr_zero(unsigned{fine_[found]}));
  }

 private:
  static constexpr std::uint32_t k_step_bits = 4;
  static constexpr std::uint32_t k_steps = 1u << k_step_bits;
  static constexpr std::uint32_t k_levels = 60;

  int shift_;
  std::uint64_t coarse_ = 0;
  std::array<std::uint16_t, k_levels> fine_{};
  std::array<Linked<Piece>, k_levels * k_steps> lists_{};
};

}  // namespace sluice::detail
