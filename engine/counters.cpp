#include <ostream>
#include <sstream>

#include <sluice/engine/counters.h>

namespace sluice {

std::ostream& operator<<(std::ostream& out, const EngineCounters& counters) {
  return out << "pushed " << counters.pushed << ", retired " << counters.retired << ", run " << counters.run
             << ", skipped " << counters.skipped << ", failed " << counters.failed << ", waits " << counters.waits
             << ", run_next " << counters.run_next << ", stolen " << counters.stolen << ", overflowed "
             << counters.overflowed << ", parked " << counters.parked << ", stream_waits " << counters.stream_waits
             << ", batches " << counters.batches << ", batched " << counters.batched << ", repeated "
             << counters.repeated << ", graphs_made " << counters.graphs_made << ", reissued " << counters.reissued;
}

std::string to_string(const EngineCounters& counters) {
  std::ostringstream text;
  text << counters;
  return std::move(text).str();
}

}  // namespace sluice
