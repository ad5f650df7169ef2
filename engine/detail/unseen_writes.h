#pragma once

#include <cstdint>

namespace sluice::detail {

/// Changes with all by which this thread may have had memory written without a push that says so: runs of regions,
/// loans to other libraries. Who keeps what it made of such memory compares it; the same program, the same numbers.
std::uint32_t unseen_writes() noexcept;
void note_unseen_writes() noexcept;

/// Notes them where it begins and where it ends.
class UnseenWrites {
 public:
  UnseenWrites() noexcept { note_unseen_writes(); }
  UnseenWrites(const UnseenWrites&) = delete;
  UnseenWrites& operator=(const UnseenWrites&) = delete;
  ~UnseenWrites() { note_unseen_writes(); }
};

/// For runs of regions whose maker has told of their writes: nothing was noted while it lived.
class SeenWrites {
 public:
  SeenWrites() noexcept;
  SeenWrites(const SeenWrites&) = delete;
  SeenWrites& operator=(const SeenWrites&) = delete;
  ~SeenWrites();

 private:
  const std::uint32_t before_;
};

}  // namespace sluice::detail
