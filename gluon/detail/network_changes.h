#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::gluon::detail {

/// How often blocks of this process got parameters or children, or others in their place: as long as it stays, a list
/// of a network's parameters is good. Any thread.
std::uint64_t network_changes() noexcept;
void note_network_change() noexcept;

}  // namespace sluice::gluon::detail
