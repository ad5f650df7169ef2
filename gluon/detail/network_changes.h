#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::gluon::detail {

/// How often blocks of this process got parameters or children, or others in their place: as long as it stays, a list
/// of a network's parameters is good. Any thread.
std::uint64_t network_changes() noexcept;
/// How often such blocks had been called before: as long as it stays, so do traced programs, in which no other block
/// can be. Read behind network_changes() it counts no less than that does.
std::uint64_t changes_of_called() noexcept;
void note_network_change(bool was_called) noexcept;

}  // namespace sluice::gluon::detail
