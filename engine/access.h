#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <sluice/engine/var.h>

namespace sluice {

/// read: shared. write: exclusive, sees the old value. out: exclusive, the old value is dead (clears an error).
/// commute: as write, but see commute().
enum class AccessMode : std::uint8_t { read, write, out, commute };

/// One Var that a task touches, and how. Borrows the Var, which must live until push() or wait() returns.
struct Access {
  detail::VarCore* var = nullptr;
  AccessMode mode = AccessMode::read;
};

inline Access read(const Var& var) noexcept {
  return {var.core(), AccessMode::read};
}
inline Access write(const Var& var) noexcept {
  return {var.core(), AccessMode::write};
}
inline Access out(const Var& var) noexcept {
  return {var.core(), AccessMode::out};
}
/// Exclusive, sees the old value, in any order: tasks that commute on a Var run one at a time, whichever has all its
/// other Vars first (among those the more urgent class), as long as nothing else is pushed on that Var between them.
/// Before and after such a run the order is that of write(). For updates whose order does not matter: of a sum of
/// floats two runs of a program may differ in the last bits. As OpenMP's mutexinoutset (depend clause, 5.2) and
/// StarPU's STARPU_COMMUTE. Of several Vars a task takes all at once, when it has all else, and holds none while it
/// waits for another (after 16 tries it keeps those before, in order of age, so that others cannot pass it for ever).
/// It fails, is skipped or cancelled, poisons and counts a version as with write(): members that come after a failure
/// are skipped. A wait for the Var waits for all members pushed before, and ends the run. Beside another access of the
/// same Var in the same task, and in a Region, it is write().
inline Access commute(const Var& var) noexcept {
  return {var.core(), AccessMode::commute};
}
Access read(Var&&) = delete;  // would dangle
Access write(Var&&) = delete;
Access out(Var&&) = delete;
Access commute(Var&&) = delete;

/// The accesses of a task. Made from a brace list, or from any row of Access: a std::vector, a std::array, a span. Up
/// to eight live in place.
class AccessList {
 public:
  AccessList() noexcept {}  // NOLINT: what is in place stays unwritten
  AccessList(std::initializer_list<Access> list) { append({list.begin(), list.size()}); }  // NOLINT: by design
  template <class Row>
  requires(std::convertible_to<const Row&, std::span<const Access>> && !std::same_as<Row, AccessList>)
      AccessList(const Row& row) {  // NOLINT: by design
    append(row);
  }
  AccessList(const AccessList& other) { append(other); }
  AccessList(AccessList&& other) noexcept { take(other); }
  AccessList& operator=(const AccessList& other) {
    if (this != &other) {
      clear();
      append(other);
    }
    return *this;
  }
  AccessList& operator=(AccessList&& other) noexcept {
    if (this != &other)
      take(other);
    return *this;
  }
  ~AccessList() = default;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Access* data() noexcept { return more_ == nullptr ? in_place_ : more_.get(); }
  const Access* data() const noexcept { return more_ == nullptr ? in_place_ : more_.get(); }
  Access* begin() noexcept { return data(); }
  Access* end() noexcept { return data() + size_; }
  const Access* begin() const noexcept { return data(); }
  const Access* end() const noexcept { return data() + size_; }
  Access& operator[](std::size_t index) noexcept { return data()[index]; }
  const Access& operator[](std::size_t index) const noexcept { return data()[index]; }
  Access& front() noexcept { return data()[0]; }
  Access& back() noexcept { return data()[size_ - 1]; }

  void push_back(Access access) {
    reserve(size_ + 1);
    data()[size_++] = access;
  }
  /// Of another list.
  void append(std::span<const Access> accesses) {
    reserve(size_ + accesses.size());
    std::copy(accesses.begin(), accesses.end(), end());
    size_ += accesses.size();
  }
  /// Room for as many in all.
  void reserve(std::size_t count) {
    if (count <= room_)
      return;
    const std::size_t room = std::max(count, 2 * room_);
    auto more = std::make_unique<Access[]>(room);
    std::copy(begin(), end(), more.get());
    more_ = std::move(more);
    room_ = room;
  }
  void clear() noexcept { size_ = 0; }

 private:
  static constexpr std::size_t k_in_place = 8;

  void take(AccessList& other) noexcept {
    more_ = std::move(other.more_);
    room_ = std::exchange(other.room_, k_in_place);
    size_ = std::exchange(other.size_, 0);
    if (more_ == nullptr)
      std::copy(other.in_place_, other.in_place_ + size_, in_place_);
  }

  std::size_t size_ = 0;
  std::size_t room_ = k_in_place;
  std::unique_ptr<Access[]> more_;  // null: in place
  union {
    Access in_place_[k_in_place];
  };
};

}  // namespace sluice
