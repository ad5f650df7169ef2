#pragma once

#include "tests/engine/model/weak/var_suite.h"

namespace sluice::weak {

inline constexpr Script k_counted{"counted", 100, 0, {{"w", "r"}, {"r", "w"}, {"r"}}};
inline constexpr Script k_readers_and_writer{"readers and a writer", 100, 0, {{"r"}, {"r"}, {"w"}}};
inline constexpr Script k_reader_after_reader{
    "reader after reader, then a writer", 100, 0, {{"r", "-r"}, {"r"}, {"-r", "w"}}};
inline constexpr Script k_gated{"through a gate", 1, 0, {{"r", "r"}, {"r"}, {"w"}}};
inline constexpr Script k_crossing{"each reads what the other writes", 1, 0, {{"rr", "rw"}, {"wr"}, {}}};
inline constexpr Script k_dropped{"dropped", 100, 2, {{"r", "D"}, {"w", "D"}, {}}};
inline constexpr Script k_dropped_gated{"dropped behind a gate", 1, 2, {{"r", "r", "D"}, {"r", "D"}, {}}};

}  // namespace sluice::weak
