#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include <sluice/storage/chunk.h>

namespace sluice::detail {

/// Written as "512 B", "1.50 MiB".
struct Bytes {
  std::size_t count;
};
std::ostream& operator<<(std::ostream& out, Bytes bytes);
std::string to_text(Bytes bytes);

/// "device memory".
const char* word_of(MemoryKind kind) noexcept;

}  // namespace sluice::detail
