// Snapshots for programs (JSON) and for people (a table). All strings are names of ours, so none needs escaping but
// the pool's, which is checked against a list.
#include <iomanip>
#include <sstream>

#include <sluice/storage/detail/text.h>
#include <sluice/storage/snapshot.h>

namespace sluice {
namespace {

const char* word_of(MemoryBlock::State state) noexcept {
  constexpr const char* k_words[] = {"live", "pending", "free"};
  return k_words[static_cast<std::size_t>(state)];
}

const char* word_of(MemoryEvent::Kind kind) noexcept {
  constexpr const char* k_words[] = {"acquire", "release", "segment_in", "segment_out", "out_of_memory"};
  return k_words[static_cast<std::size_t>(kind)];
}

void write(std::ostream& out, const MemoryClassStats& part) {
  out << "{\"allocated\":" << part.allocated << ",\"active\":" << part.active << ",\"live\":" << part.live
      << ",\"allocations\":" << part.allocations << ",\"releases\":" << part.releases << '}';
}

void write(std::ostream& out, const MemoryStats& stats) {
  out << "{\"allocated\":" << stats.allocated << ",\"active\":" << stats.active << ",\"reserved\":" << stats.reserved
      << ",\"inactive_split\":" << stats.inactive_split << ",\"peak_allocated\":" << stats.peak_allocated
      << ",\"peak_active\":" << stats.peak_active << ",\"peak_reserved\":" << stats.peak_reserved
      << ",\"allocations\":" << stats.allocations << ",\"releases\":" << stats.releases
      << ",\"source_allocations\":" << stats.source_allocations << ",\"segments\":" << stats.segments
      << ",\"trims\":" << stats.trims << ",\"retries\":" << stats.retries
      << ",\"out_of_memory\":" << stats.out_of_memory << ",\"small\":";
  write(out, stats.small);
  out << ",\"large\":";
  write(out, stats.large);
  out << '}';
}

void write(std::ostream& out, const MemoryBlock& block) {
  out << "{\"address\":" << block.address << ",\"bytes\":" << block.bytes << ",\"requested\":" << block.requested
      << ",\"state\":\"" << word_of(block.state) << "\",\"pending\":[";
  const char* comma = "";
  for (const Position position : block.pending) {
    out << comma << '[' << position.stream() << ',' << position.sequence() << ']';
    comma = ",";
  }
  out << "]}";
}

void write(std::ostream& out, const MemorySegment& segment) {
  out << "{\"address\":" << segment.address << ",\"bytes\":" << segment.bytes
      << ",\"small\":" << (segment.small ? "true" : "false") << ",\"blocks\":[";
  const char* comma = "";
  for (const MemoryBlock& block : segment.blocks) {
    out << comma << '\n';
    write(out, block);
    comma = ",";
  }
  out << "]}";
}

void write(std::ostream& out, const MemoryEvent& event) {
  out << "{\"time_ns\":" << event.time_ns << ",\"event\":\"" << word_of(event.kind)
      << "\",\"address\":" << event.address << ",\"bytes\":" << event.bytes << ",\"requested\":" << event.requested
      << '}';
}

template <class Item>
void write_list(std::ostream& out, const char* name, const std::vector<Item>& items) {
  out << ",\"" << name << "\":[";
  const char* comma = "";
  for (const Item& item : items) {
    out << comma << '\n';
    write(out, item);
    comma = ",";
  }
  out << ']';
}

void bytes_row(std::ostream& out, const char* what, std::uint64_t now, std::uint64_t peak) {
  out << "  " << std::left << std::setw(16) << what << std::right << std::setw(12) << to_text(detail::Bytes{now})
      << "   peak " << std::setw(12) << to_text(detail::Bytes{peak}) << '\n';
}

void class_row(std::ostream& out, const char* what, const MemoryClassStats& part) {
  out << "  " << std::left << std::setw(16) << what << std::right << std::setw(12)
      << to_text(detail::Bytes{part.allocated}) << "  in" << std::setw(8) << part.live << " chunks; "
      << part.allocations << " acquired, " << part.releases << " released\n";
}

}  // namespace

std::string to_json(const MemorySnapshot& snapshot) {
  std::ostringstream out;
  out << "{\"pool\":\"" << snapshot.pool << "\",\"device\":\"" << snapshot.device << "\",\"kind\":\""
      << detail::word_of(snapshot.kind) << "\",\"stats\":";
  write(out, snapshot.stats);
  write_list(out, "segments", snapshot.segments);
  write_list(out, "history", snapshot.history);
  out << ",\"events_lost\":" << snapshot.events_lost << "}\n";
  return out.str();
}

std::string to_text(const MemorySnapshot& snapshot) {
  const MemoryStats& stats = snapshot.stats;
  std::ostringstream out;
  out << detail::word_of(snapshot.kind) << " of " << snapshot.device << ", pool " << snapshot.pool << '\n';
  bytes_row(out, "allocated", stats.allocated, stats.peak_allocated);
  bytes_row(out, "active", stats.active, stats.peak_active);
  bytes_row(out, "reserved", stats.reserved, stats.peak_reserved);
  out << "  " << std::left << std::setw(16) << "inactive split" << std::right << std::setw(12)
      << to_text(detail::Bytes{stats.inactive_split}) << '\n';
  class_row(out, "up to 1 MiB", stats.small);
  class_row(out, "larger", stats.large);
  out << "  " << stats.segments << " segments, " << stats.source_allocations << " calls of the system, "
      << stats.retries << " retries, " << stats.out_of_memory << " out of memory\n";
  return out.str();
}

}  // namespace sluice
