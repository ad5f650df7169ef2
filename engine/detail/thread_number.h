#pragma once

#include <cstdint>

namespace sluice::detail {

/// A number that no other thread of the process has or had, from 1.
std::uint64_t this_thread_number() noexcept;

}  // namespace sluice::detail
