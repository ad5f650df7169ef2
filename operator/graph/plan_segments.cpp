// How a plan is cut into CUDA graphs, and why: for who looks at it.
#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/engine/detail/own_launch.h>
#include <sluice/engine/origin.h>
#include <sluice/operator/graph/detail/arena.h>

namespace sluice::graph {

namespace {

const char* reason_against(const Binding::Step& step) {
  if (step.device.is_cpu())
    return "runs on a CPU";
  return step.op->capturable ? "takes arrays of several devices" : "works on the host each time it runs";
}

std::string place_of(SourceLocation site) {
  const Origin* const origin = Origin::of(site);
  return message(origin == nullptr ? "" : origin->what() + ", called ", "at ", site.file, ':', site.line);
}

}  // namespace

void add_to(RegionCounts& sum, const RegionCounts& more) noexcept {
  sum.captured += more.captured;
  sum.instantiated += more.instantiated;
  sum.updated += more.updated;
  sum.launched += more.launched;
  sum.in_order += more.in_order;
}

std::vector<PlanSegment> Arena::segments() const {
  std::vector<PlanSegment> all;
  for (const Segment& segment : segments_) {
    PlanSegment& made = all.emplace_back();
    made.calls = segment.end - segment.begin;
    const Binding::Step& first = binding_.steps()[segment.begin];
    std::optional<RegionRefusal> refusal;
    if (segment.region != nullptr)
      refusal = segment.region->refusal();
    made.captured = segment.region != nullptr && !refusal;
    if (refusal) {
      made.op = refusal->task.empty() ? first.op->name : refusal->task;
      made.site = refusal->task.empty() ? first.site : refusal->site;
      made.reason =
          refusal->task.empty() ? "is part of what CUDA makes no graph of" : "did what a capture does not take";
    } else if (segment.region == nullptr) {
      made.op = first.op->name;
      made.site = first.site;
      made.reason = reason_against(first);
    }
  }
  return all;
}

RegionCounts Arena::counts() const noexcept {
  RegionCounts sum;
  for (const Segment& segment : segments_) {
    if (segment.region == nullptr)
      continue;
    add_to(sum, segment.region->counts());
  }
  return sum;
}

double Arena::seconds_alone(int launches) const {
  const Recording* const last = recordings_.empty() ? own_recording_.get() : &recordings_.front();
  double sum = 0;
  for (const Segment& segment : segments_) {
    const double took = last == nullptr || segment.region == nullptr
                            ? 0
                            : sluice::detail::OwnLaunch::seconds_alone(*segment.region, last->key, launches);
    if (took == 0)
      return 0;
    sum += took;
  }
  return sum;
}

std::string to_string(std::span<const PlanSegment> segments) {
  std::string text;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const PlanSegment& one = segments[i];
    text += message("segment ", i + 1, ": ", one.calls, one.calls == 1 ? " call " : " calls ");
    if (one.captured)
      text += "as one CUDA graph\n";
    else
      text += message("one by one: ", one.op, ' ', one.reason, " (", place_of(one.site), ")\n");
  }
  return text;
}

}  // namespace sluice::graph
