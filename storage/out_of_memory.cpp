// The text of OutOfMemory: what was asked, held and cached, and by which sizes.
#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/storage/detail/shelf_pool.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_listed = 8;  // sizes that the text names, the weightiest first

struct Bytes {
  std::size_t count;
};

std::ostream& operator<<(std::ostream& out, Bytes bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes.count < 1024)
    return out << bytes.count << " B";
  double value = static_cast<double>(bytes.count) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value;
  return out << text.str() << ' ' << units[unit];
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

}  // namespace

void ShelfPool::throw_out_of_memory(std::size_t bytes, std::size_t size) const {
  struct Row {
    std::size_t size, live, kept;
    std::size_t weight() const noexcept { return size * (live + kept); }
  };
  std::vector<Row> rows;
  MemoryStats stats;
  std::size_t limit = 0;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    limit = limit_;
    for (const auto& [chunk_size, shelf] : shelves_) {
      if (shelf.live + shelf.kept.size() > 0)
        rows.push_back({chunk_size, shelf.live, shelf.kept.size()});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.weight() > b.weight(); });

  std::ostringstream text;
  text << "out of " << word_of(source_->kind()) << " on " << source_->device() << " (pool " << name_ << "): asked "
       << Bytes{bytes} << " (chunk of " << Bytes{size} << "), held " << Bytes{stats.active} << ", cached "
       << Bytes{stats.reserved - stats.active} << ", limit ";
  if (limit == 0) {
    text << "none";
  } else {
    text << Bytes{limit};
  }
  text << "; by size:";
  for (std::size_t i = 0; i < std::min(rows.size(), k_listed); ++i) {
    text << (i == 0 ? " " : ", ") << Bytes{rows[i].size} << " x " << rows[i].live << " held";
    if (rows[i].kept > 0)
      text << " + " << rows[i].kept << " cached";
  }
  if (rows.empty())
    text << " nothing held";
  if (rows.size() > k_listed)
    text << ", and " << rows.size() - k_listed << " more sizes";
  throw OutOfMemory(text.str(), bytes);
}

}  // namespace sluice::detail
