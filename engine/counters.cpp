#include <ostream>
#include <sstream>

#include <sluice/engine/counters.h>

namespace sluice {

std::ostream& operator<<(std::ostream& out, const EngineCounters& counters) {
  return out << "pushed " << counters.pushed << ", retired " << counters.retired << ", run " << counters.run
             << ", skipped " << counters.skipped << ", failed " << counters.failed << ", waits " << counters.waits
             << ", bytes_in_flight " << counters.bytes_in_flight << ", peak_bytes_in_flight "
             << counters.peak_bytes_in_flight << ", gpu_bytes_in_flight " << counters.gpu_bytes_in_flight
             << ", peak_gpu_bytes_in_flight " << counters.peak_gpu_bytes_in_flight << ", rests " << counters.rests
             << ", run_next " << counters.run_next << ", stolen " << counters.stolen << ", overflowed "
             << counters.overflowed << ", parked " << counters.parked << ", run_ahead " << counters.run_ahead
             << ", stream_waits " << counters.stream_waits << ", batches " << counters.batches << ", batched "
             << counters.batched << ", graphs_made " << counters.graphs_made << ", reissued " << counters.reissued;
}

std::string to_string(const EngineCounters& counters) {
  std::ostringstream text;
  text << counters;
  return std::move(text).str();
}

}  // namespace sluice
