#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include <sluice/operator/reduce/made_terms.h>

namespace sluice::detail {

/// The terms of a reduction: an array of T in memory, or, where `made` is not null, what will be one row by row.
template <class T>
struct Terms {
  const T* x = nullptr;
  const MadeTerms* made = nullptr;

  /// Elements that are worth a thread, if `grain` of them are where they only have to be read.
  std::int64_t grain_of(std::int64_t grain) const { return made == nullptr ? grain : grain / made->work() + 1; }
};

/// What a thread reads of them. What is made is made ahead of what is asked for, where that comes next anyhow.
template <class T>
class TermReader {
 public:
  /// Stretches that are made at once are whole `unit`s, or whole blocks where a unit is longer.
  TermReader(const Terms<T>& terms, std::int64_t unit, std::int64_t block) : x_(terms.x) {
    if (terms.made == nullptr)
      return;
    made_ = terms.made->reader();
    const std::int64_t most = terms.made->most(), whole = unit <= most ? unit : block;
    most_ = most / whole * whole;
  }

  bool is_made() const noexcept { return made_ != nullptr; }
  /// `count` neighbours from element `first` on, until the next call; where terms lie in memory there may be anything
  /// between them. `rest`: how many will be asked for from there, in this order.
  const T* at(std::int64_t first, std::int64_t count, std::int64_t rest) {
    if (made_ == nullptr)
      return x_ + first;
    if (first < begin_ || first + count > end_) {
      const std::int64_t n = std::max(count, std::min(rest, most_));
      window_ = static_cast<const T*>(made_->make(first, n));
      begin_ = first;
      end_ = first + n;
    }
    return window_ + (first - begin_);
  }

 private:
  const T* x_;
  std::unique_ptr<MadeTerms::Reader> made_;
  std::int64_t most_ = 0;
  const T* window_ = nullptr;  // elements [begin_, end_)
  std::int64_t begin_ = 0, end_ = 0;
};

}  // namespace sluice::detail
