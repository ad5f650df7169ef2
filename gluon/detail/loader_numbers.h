#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/loader.h>

namespace sluice::gluon::detail {

/// A loader's state as whole numbers, which files and handlers keep.
SLUICE_API std::vector<std::int64_t> numbers_of(const data::DataLoaderState& state);
/// Nothing for numbers that numbers_of() cannot have given.
SLUICE_API std::optional<data::DataLoaderState> loader_state_of(std::span<const std::int64_t> numbers);

}  // namespace sluice::gluon::detail
