#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/ndarray/shape.h>

namespace sluice::detail {

/// The numbers that tell one prepared library call from another: shapes, strides, type, attributes, threads.
class CacheKey {
 public:
  void add(std::int64_t value) { words_.push_back(value); }
  void add(const Shape& shape) {
    words_.push_back(shape.ndim());
    for (std::int64_t extent : shape)
      words_.push_back(extent);
  }
  template <class... Values>
  static CacheKey of(const Values&... values) {
    CacheKey key;
    (key.add(values), ...);
    return key;
  }
  /// The numbers, a space before each.
  std::string text() const {
    std::string all;
    for (std::int64_t word : words_)
      all += ' ' + std::to_string(word);
    return all;
  }
  bool operator==(const CacheKey& other) const noexcept { return words_ == other.words_; }
  std::size_t hash() const noexcept {
    std::uint64_t h = 0x9e37'79b9'7f4a'7c15ull;
    for (std::int64_t word : words_)
      h = (h ^ static_cast<std::uint64_t>(word)) * 0xff51'afd7'ed55'8ccdull, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }

 private:
  boost::container::small_vector<std::int64_t, 32> words_;
};

/// Prepared calls, the least recently used of which goes when there are more than `capacity`. Any thread may ask;
/// values are made outside the lock, so two threads may make the same one and the later is dropped.
template <class Value>
class LibraryCache {
 public:
  explicit LibraryCache(std::size_t capacity) : capacity_(capacity) {}

  template <class Make>
  std::shared_ptr<const Value> get(const CacheKey& key, Make&& make) {
    if (auto found = find(key))
      return found;
    return keep(key, std::forward<Make>(make)());
  }

  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return entries_.size();
  }

 private:
  using Entry = std::pair<CacheKey, std::shared_ptr<const Value>>;
  struct Hash {
    std::size_t operator()(const CacheKey& key) const noexcept { return key.hash(); }
  };

  std::shared_ptr<const Value> find(const CacheKey& key) {
    const std::scoped_lock lock(mutex_);
    const auto at = index_.find(key);
    if (at == index_.end())
      return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->second;
  }
  std::shared_ptr<const Value> keep(const CacheKey& key, std::shared_ptr<const Value> value) {
    std::shared_ptr<const Value> dropped;  // destroyed outside the lock
    const std::scoped_lock lock(mutex_);
    if (const auto at = index_.find(key); at != index_.end())
      return at->second->second;
    entries_.emplace_front(key, value);
    index_.emplace(key, entries_.begin());
    if (entries_.size() > capacity_) {
      dropped = std::move(entries_.back().second);
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return value;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<CacheKey, typename std::list<Entry>::iterator, Hash> index_;
  const HeldOverForks held_{mutex_};
};

}  // namespace sluice::detail
