#pragma once

#include <cstdint>

#include <boost/container/small_vector.hpp>

namespace sluice {

/// A point in the work of one GPU stream: the `sequence`-th task issued on the engine's stream number `stream`.
/// All work up to and including it is done once the stream has passed it. Zero means none.
class Position {
 public:
  constexpr Position() = default;
  constexpr Position(std::uint16_t stream, std::uint64_t sequence) noexcept
      : bits_((std::uint64_t{stream} << 48) | sequence) {}

  constexpr std::uint16_t stream() const noexcept { return static_cast<std::uint16_t>(bits_ >> 48); }
  constexpr std::uint64_t sequence() const noexcept { return bits_ & 0xffff'ffff'ffffull; }
  constexpr explicit operator bool() const noexcept { return bits_ != 0; }
  constexpr bool operator==(const Position&) const = default;

 private:
  std::uint64_t bits_ = 0;
};

/// A short set of positions, at most one a stream (the latest): what must be passed before memory may be reused.
class PositionSet {
 public:
  bool empty() const noexcept { return items_.empty(); }
  void clear() noexcept { items_.clear(); }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }
  std::size_t size() const noexcept { return items_.size(); }

  /// add() takes no memory up to so many.
  void reserve(std::size_t count) { items_.reserve(count); }
  void add(Position position) {
    if (!position)
      return;
    for (Position& held : items_) {
      if (held.stream() != position.stream())
        continue;
      if (held.sequence() < position.sequence())
        held = position;
      return;
    }
    items_.push_back(position);
  }
  void add(const PositionSet& other) {
    for (Position position : other)
      add(position);
  }

 private:
  boost::container::small_vector<Position, 4> items_;
};

}  // namespace sluice
