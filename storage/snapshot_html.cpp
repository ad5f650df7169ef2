// A page that shows a pool: bytes over time, lifetimes by address, segments as they are. One SVG, no script.
#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include <sluice/storage/detail/text.h>
#include <sluice/storage/snapshot.h>

namespace sluice {
namespace {

using detail::Bytes;
constexpr double k_width = 1000, k_curve = 160, k_map = 420, k_row = 18;

const char* const k_style = R"(<!doctype html>
<html><head><meta charset="utf-8"><title>Sluice memory</title><style>
body{font:13px sans-serif;margin:20px}pre{font-size:12px}h2{font-size:15px}
.live{fill:#2b6cb0}.pending{fill:#dd8b1f}.free{fill:#e2e8f0}.life{fill:#2b6cb0;fill-opacity:.55;stroke:#1a4971;stroke-width:.3}
.out{stroke:#c53030;stroke-width:1.5}.reserved{fill:none;stroke:#718096;stroke-width:1.5}.active{fill:none;stroke:#2b6cb0;stroke-width:1.5}
.frame{fill:none;stroke:#cbd5e0}text{font-size:11px;fill:#4a5568}</style></head><body>
)";

struct Life {
  std::size_t begin, end;  // events
  std::uintptr_t address;
  std::size_t bytes;
};

/// What the recorded events say, with what was live before they began taken from the end backwards.
struct Story {
  std::vector<Life> lives;
  std::vector<std::uint64_t> active, reserved;  // after each event
  std::vector<std::size_t> out_of_memory;
  std::map<std::uintptr_t, std::size_t> segments;  // all addresses that had memory, as stretches

  void add_segment(std::uintptr_t address, std::size_t bytes) {
    std::size_t& held = segments[address];
    held = std::max(held, bytes);
  }
  /// Segments that overlap, because pages or addresses were used again, become one.
  void join_segments() {
    for (auto at = segments.begin(); at != segments.end();) {
      const auto next = std::next(at);
      if (next == segments.end() || at->first + at->second < next->first) {
        at = next;
        continue;
      }
      at->second = std::max(at->first + at->second, next->first + next->second) - at->first;
      segments.erase(next);
    }
  }
};

Story tell(const MemorySnapshot& snapshot) {
  Story story;
  const std::vector<MemoryEvent>& events = snapshot.history;
  story.active.resize(events.size());
  story.reserved.resize(events.size());
  for (const MemorySegment& segment : snapshot.segments)
    story.add_segment(segment.address, segment.bytes);
  std::map<std::uintptr_t, Life> open;
  for (const MemorySegment& segment : snapshot.segments) {
    for (const MemoryBlock& block : segment.blocks) {
      if (block.state == MemoryBlock::State::live)
        open[block.address] = {0, events.size(), block.address, block.bytes};
    }
  }
  std::uint64_t active = snapshot.stats.active, reserved = snapshot.stats.reserved;
  for (std::size_t i = events.size(); i-- > 0;) {
    const MemoryEvent& event = events[i];
    story.active[i] = active;
    story.reserved[i] = reserved;
    switch (event.kind) {
      case MemoryEvent::Kind::acquire:
        active -= event.bytes;
        if (const auto at = open.find(event.address); at != open.end()) {
          at->second.begin = i;
          story.lives.push_back(at->second);
          open.erase(at);
        }
        break;
      case MemoryEvent::Kind::release:
        active += event.bytes;
        open[event.address] = {0, i, event.address, event.bytes};
        break;
      case MemoryEvent::Kind::segment_in:
        reserved -= event.bytes;
        break;
      case MemoryEvent::Kind::segment_out:
        reserved += event.bytes;
        story.add_segment(event.address, event.bytes);
        break;
      case MemoryEvent::Kind::out_of_memory:
        story.out_of_memory.push_back(i);
        break;
    }
  }
  for (const auto& [address, life] : open)
    story.lives.push_back(life);
  story.join_segments();
  return story;
}

void curve(std::ostream& out, const char* name, const std::vector<std::uint64_t>& values, double most) {
  out << "<polyline class=\"" << name << "\" points=\"";
  const std::size_t step = std::max<std::size_t>(1, values.size() / 4000);
  for (std::size_t i = 0; i < values.size(); i += step) {
    out << k_width * static_cast<double>(i) / static_cast<double>(values.size()) << ','
        << k_curve * (1 - static_cast<double>(values[i]) / most) << ' ';
  }
  out << "\"/>\n";
}

void draw_curves(std::ostream& out, const Story& story) {
  std::uint64_t most = 1;
  for (const std::uint64_t bytes : story.reserved)
    most = std::max(most, bytes);
  for (const std::uint64_t bytes : story.active)
    most = std::max(most, bytes);
  out << "<h2>Reserved (grey) and active (blue) bytes, event by event; at most " << Bytes{most}
      << "</h2>\n<svg width=\"" << k_width << "\" height=\"" << k_curve << "\"><rect class=\"frame\" width=\""
      << k_width << "\" height=\"" << k_curve << "\"/>\n";
  curve(out, "reserved", story.reserved, static_cast<double>(most));
  curve(out, "active", story.active, static_cast<double>(most));
  for (const std::size_t at : story.out_of_memory) {
    const double x = k_width * static_cast<double>(at) / static_cast<double>(story.active.size());
    out << "<line class=\"out\" x1=\"" << x << "\" x2=\"" << x << "\" y1=\"0\" y2=\"" << k_curve << "\"/>\n";
  }
  out << "</svg>\n";
}

// Segments one over the other by address, so that gaps between them take no room.
void draw_lives(std::ostream& out, const Story& story, std::size_t events) {
  std::map<std::uintptr_t, std::uint64_t> below;
  std::uint64_t total = 0;
  for (const auto& [address, bytes] : story.segments) {
    below[address] = total;
    total += bytes;
  }
  out << "<h2>Lifetimes: events to the right, segments by address upwards</h2>\n<svg width=\"" << k_width
      << "\" height=\"" << k_map << "\"><rect class=\"frame\" width=\"" << k_width << "\" height=\"" << k_map
      << "\"/>\n";
  for (const Life& life : story.lives) {
    auto at = below.upper_bound(life.address);
    if (at == below.begin())
      continue;
    --at;
    const double scale = k_map / static_cast<double>(std::max<std::uint64_t>(total, 1));
    const double bottom = scale * static_cast<double>(at->second + (life.address - at->first));
    const double height = scale * static_cast<double>(life.bytes);
    const double step = k_width / static_cast<double>(std::max<std::size_t>(events, 1));
    out << "<rect class=\"life\" x=\"" << step * static_cast<double>(life.begin) << "\" y=\"" << k_map - bottom - height
        << "\" width=\"" << step * static_cast<double>(std::max<std::size_t>(life.end - life.begin, 1))
        << "\" height=\"" << height << "\"><title>" << Bytes{life.bytes} << "</title></rect>\n";
  }
  out << "</svg>\n";
}

void draw_segments(std::ostream& out, const MemorySnapshot& snapshot) {
  constexpr const char* k_classes[] = {"live", "pending", "free"};
  std::size_t largest = 1;
  for (const MemorySegment& segment : snapshot.segments)
    largest = std::max(largest, segment.bytes);
  out << "<h2>Segments now: on loan (blue), pending (orange), free (grey)</h2>\n<svg width=\"" << k_width + 120
      << "\" height=\"" << k_row * static_cast<double>(snapshot.segments.size() + 1) << "\">\n";
  double y = 0;
  for (const MemorySegment& segment : snapshot.segments) {
    const double scale = k_width / static_cast<double>(largest);
    for (const MemoryBlock& block : segment.blocks) {
      out << "<rect class=\"" << k_classes[static_cast<std::size_t>(block.state)] << "\" x=\""
          << scale * static_cast<double>(block.address - segment.address) << "\" y=\"" << y << "\" width=\""
          << scale * static_cast<double>(block.bytes) << "\" height=\"" << k_row - 3 << "\"><title>"
          << Bytes{block.bytes} << "</title></rect>\n";
    }
    out << "<text x=\"" << scale * static_cast<double>(segment.bytes) + 5 << "\" y=\"" << y + 12 << "\">"
        << Bytes{segment.bytes} << (segment.small ? ", small" : "") << "</text>\n";
    y += k_row;
  }
  out << "</svg>\n";
}

}  // namespace

std::string to_html(const MemorySnapshot& snapshot) {
  std::ostringstream out;
  out << k_style << "<pre>" << to_text(snapshot) << "</pre>\n";
  if (snapshot.history.empty()) {
    out << "<p>No history: record_memory_history() keeps one.</p>\n";
  } else {
    const Story story = tell(snapshot);
    draw_curves(out, story);
    draw_lives(out, story, snapshot.history.size());
  }
  draw_segments(out, snapshot);
  out << "</body></html>\n";
  return out.str();
}

}  // namespace sluice
