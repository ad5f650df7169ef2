#pragma once

#include <cstdint>
#include <memory>

namespace sluice::detail {

/// Terms of a reduction that lie in no memory: whoever makes them is asked for a stretch at a time, as they would lie
/// row by row. So their results are those of an array to the last bit.
class MadeTerms {
 public:
  /// Of one thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    /// Elements [first, first + count), at most most() of them; they stay until the next call.
    virtual const void* make(std::int64_t first, std::int64_t count) = 0;
  };

  virtual ~MadeTerms() = default;
  /// Throws std::bad_alloc. A thread has one at a time.
  virtual std::unique_ptr<Reader> reader() const = 0;
  /// How many are made at once: a block of a reduction at least (k_block_terms), or all there are.
  virtual std::int64_t most() const = 0;
  /// How much longer a term takes than one that is only read.
  virtual std::int64_t work() const = 0;
};

}  // namespace sluice::detail
