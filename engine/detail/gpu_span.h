#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/device.h>
#include <sluice/engine/task.h>
#include <sluice/engine/trace.h>

namespace sluice::detail {

/// What a GPU did for one task, or for a batch of them. Times are those of the host's steady clock, in nanoseconds; -1
/// where the GPU has not come there yet.
struct GpuSpan {
  Device device;
  StreamKind kind = StreamKind::compute;
  std::uint16_t stream = 0;  // number of the stream in its engine
  bool batch = false;
  boost::container::small_vector<std::uint64_t, 1> tasks;  // by TraceRecord::order
  std::int64_t began = -1;
  std::int64_t ended = -1;
};

/// A trace in the making: events with their place in the order of pushes, sorted by it.
struct TraceParts {
  std::vector<std::pair<std::uint64_t, TraceEvent>> events;
  std::vector<TraceThread> threads;
  std::vector<TraceBatch> batches;
};

/// Puts the GPU's times into the events that `spans` name, with a row for each stream; the host's move to `issued`.
/// `began`: when the trace did, on the host's clock. A GPU does not begin before its host: times that say so, within
/// what clocks differ, are cut.
void add_gpu_spans(TraceParts& trace, const std::vector<GpuSpan>& spans, std::int64_t began);

}  // namespace sluice::detail
