#include <array>
#include <iomanip>
#include <sstream>

#include <sluice/storage/detail/text.h>

namespace sluice::detail {

std::ostream& operator<<(std::ostream& out, Bytes bytes) {
  return out << to_text(bytes);
}

std::string to_text(Bytes bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes.count < 1024)
    return std::to_string(bytes.count) + " B";
  double value = static_cast<double>(bytes.count) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value << ' ' << units[unit];
  return text.str();
}

const char* word_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::host:
      return "host memory";
    case MemoryKind::pinned:
      return "pinned memory";
    case MemoryKind::device:
      return "device memory";
  }
  return "memory";
}

}  // namespace sluice::detail
