#pragma once

// One connection carries any number of requests, sent without waiting for answers; those come in the same order. All
// numbers are little-endian.
//
//   the server, once:  8 bytes "SLUICE 1", uint32 values of a sample, uint32 values of an answer
//   a request:         uint32 count, count x float32: a sample, row by row
//   an answer:         uint32 status, uint32 bytes, and so many bytes: float32 values, or text that says what is wrong
//
// After a request of another count than the greeting's the connection goes on, unless it is above k_most_values.
#include <bit>
#include <cstddef>
#include <cstdint>

namespace samples {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie");

enum class Status : std::uint32_t { ok = 0, bad_request = 1, busy = 2, failed = 3 };

struct Greeting {
  char magic[8];
  std::uint32_t sample_values, answer_values;
};

struct AnswerHead {
  Status status;
  std::uint32_t bytes;
};

inline constexpr char k_magic[] = "SLUICE 1";
inline constexpr std::uint32_t k_most_values = 1 << 24;
/// Requests of a connection that the server works at; what is sent beyond waits in the network.
inline constexpr std::size_t k_most_open = 256;

}  // namespace samples
