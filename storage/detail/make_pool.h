#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sluice/storage/detail/passage.h>
#include <sluice/storage/storage.h>

namespace sluice::detail {

/// The strategy's own copy of its name. Throws ValueError naming those there are for `kind`.
std::string_view known_pool(std::string_view name, MemoryKind kind);
std::string names_of_pools(MemoryKind kind);
/// Throws DeviceError where there is no such memory.
std::unique_ptr<Pool> make_pool(
    Passage& passage, std::string_view name, Device device, MemoryKind kind, const StorageOptions& options);

}  // namespace sluice::detail
