// What GPUs did, put into a trace of what their host did.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include <sluice/engine/detail/gpu_span.h>

namespace sluice::detail {

namespace {

std::string track_name(const GpuSpan& span, int number) {
  std::string name = to_string(span.device);
  switch (span.kind) {
    case StreamKind::compute:
      return name + " compute " + std::to_string(number);
    case StreamKind::copy_in:
      name += " copy in";
      break;
    case StreamKind::copy_out:
      name += " copy out";
      break;
    case StreamKind::copy_peer:
      name += " copy from another";
      break;
    case StreamKind::collective:
      name += " collective";
      break;
  }
  return number == 0 ? name : name + " " + std::to_string(number);
}

/// Rows of the streams that occur: by GPU, then kind, then number; numbered within those.
class Tracks {
 public:
  Tracks(const std::vector<GpuSpan>& spans, std::vector<TraceThread>& threads) {
    for (const GpuSpan& span : spans)
      rows_.emplace(key(span), 0);
    std::map<std::pair<int, StreamKind>, int> numbers;
    for (auto& [stream, row] : rows_) {
      const auto& [device, kind, number] = stream;
      GpuSpan like;
      like.device = gpu(device);
      like.kind = kind;
      row = static_cast<int>(threads.size());
      threads.push_back({.name = track_name(like, numbers[{device, kind}]++), .stream = true});
    }
  }
  int of(const GpuSpan& span) const { return rows_.at(key(span)); }

 private:
  using Key = std::tuple<int, StreamKind, std::uint16_t>;
  static Key key(const GpuSpan& span) { return {span.device.index, span.kind, span.stream}; }
  std::map<Key, int> rows_;
};

void set_times(TraceEvent& event, int row, std::int64_t began, std::int64_t ended) {
  event.issuer = std::exchange(event.worker, row);
  event.issued = std::exchange(event.started, began < 0 ? -1 : std::max(began, event.started));
  event.issue_ended = std::exchange(event.ended, began < 0 || ended < 0 ? -1 : std::max(ended, event.started));
  if (event.ended >= 0)
    return;
  event.outcome = TaskOutcome::unfinished;  // of the work, whatever became of its issue
  if (event.started < 0)
    event.worker = -1;
}

}  // namespace

void add_gpu_spans(TraceParts& trace, const std::vector<GpuSpan>& spans, std::int64_t began) {
  const Tracks tracks(spans, trace.threads);
  const auto since = [began](std::int64_t time) { return time < 0 ? -1 : std::max<std::int64_t>(time - began, 0); };
  for (const GpuSpan& span : spans) {
    TraceBatch batch{.worker = tracks.of(span), .started = since(span.began), .ended = since(span.ended)};
    for (std::uint64_t order : span.tasks) {
      const auto at = std::lower_bound(
          trace.events.begin(), trace.events.end(), order, [](const auto& entry, std::uint64_t wanted) {
            return entry.first < wanted;
          });
      if (at == trace.events.end() || at->first != order)
        continue;
      TraceEvent& event = at->second;
      // Twice: a batch that failed and was issued again task by task. The last time counts.
      if (event.issued >= 0) {
        event.worker = event.issuer;
        event.started = event.issued;
        event.ended = event.issue_ended;
        event.batch = -1;
      }
      set_times(event, batch.worker, batch.started, batch.ended);
      if (span.batch) {
        event.batch = static_cast<int>(trace.batches.size());
        batch.tasks.push_back(static_cast<std::size_t>(at - trace.events.begin()));
      }
    }
    if (span.batch && !batch.tasks.empty())
      trace.batches.push_back(std::move(batch));
  }
}

}  // namespace sluice::detail
