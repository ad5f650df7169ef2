#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <sluice/storage/detail/passage.h>
#include <sluice/storage/detail/size_rule.h>
#include <sluice/storage/detail/source.h>
#include <sluice/storage/pool.h>

namespace sluice::detail {

/// Does a pool keep what comes back?
enum class Keep : std::uint8_t {
  cached,        // for the next owner
  until_passed,  // only as long as a GPU may still touch it; then it goes back to the system
};

/// A pool = a size rule, shelves of returned chunks by size, and a source of new ones. release() touches neither the
/// passage nor the source's driver where it keeps the chunk, so it works after the engine has gone; acquire() and
/// trim() need the passage.
class ShelfPool final : public Pool {
 public:
  ShelfPool(Passage& passage, std::string_view name, SizeRule rule, Keep keep, std::unique_ptr<Source> source) noexcept;
  ~ShelfPool() override;

  Chunk acquire(std::size_t bytes, std::optional<std::uint16_t> stream = {}, ChunkUse use = ChunkUse::compute) override;
  void release(Chunk&& chunk) noexcept override;
  std::size_t trim() override;
  MemoryStats stats() const override;
  void reset_peaks() override;
  void set_limit(std::size_t bytes) override;
  std::string_view name() const noexcept override { return name_; }

 private:
  struct Kept {
    void* data = nullptr;
    PositionSet pending;
  };
  /// All chunks of one size.
  struct Shelf {
    std::vector<Kept> kept;  // the last one came back last
    std::size_t live = 0;    // chunks on loan
  };
  using Shelves = std::map<std::size_t, Shelf>;

  struct User {
    std::optional<std::uint16_t> stream;
    ChunkUse use = ChunkUse::compute;
  };

  bool try_acquire(std::size_t size, const User& user, Kept& found);
  /// `held_up`: also a chunk that holds its user up, though there are few of its size.
  bool take_kept(std::size_t size, const User& user, bool held_up, Kept& found);
  bool take_new(std::size_t size, Kept& found);
  std::size_t best_of(const std::vector<Kept>& kept, const User& user) const;
  bool holds_up(const PositionSet& pending, const User& user) const;
  void relieve();
  void wait_for_kept();
  std::size_t give_back(bool everything) noexcept;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, std::size_t size) const;

  Passage& passage_;
  const std::string_view name_;
  const SizeRule rule_;
  const Keep keep_;
  const std::unique_ptr<Source> source_;

  mutable std::mutex mutex_;  // short: no call of the driver happens under it
  Shelves shelves_;
  MemoryStats stats_;
  std::size_t limit_ = 0;
  std::size_t parked_ = 0;  // chunks on all shelves
};

}  // namespace sluice::detail
