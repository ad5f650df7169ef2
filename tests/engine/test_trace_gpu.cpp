// Traces with what GPUs did, which is written by hand here: rows, times, batches, and how files show them.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>

#include <sluice/engine/detail/gpu_span.h>
#include <sluice/engine/detail/named_range.h>

#include "tests/engine/expect.h"

using namespace sluice;
using namespace sluice::detail;
using namespace sluice::test;
using nlohmann::json;

namespace {

constexpr std::int64_t k_began = 5'000'000;  // on the host's clock

/// `n` GPU tasks: task i was pushed at 1000 i, issued from 1000 i + 100 to 1000 i + 300 by row 0. Order 10 (i + 1).
TraceParts issued_tasks(int n) {
  TraceParts parts;
  parts.threads = {{"main", false}, {"sluice-0", true}};
  for (int i = 0; i < n; ++i) {
    TraceEvent event;
    event.name = "task " + std::to_string(i);
    event.device = gpu(0);
    event.outcome = TaskOutcome::ok;
    event.pusher = event.worker = 0;
    event.pushed = 1000 * i;
    event.ready = event.pushed + 50;
    event.started = event.pushed + 100;
    event.ended = event.pushed + 300;
    event.vars = {{1, AccessMode::write}};
    parts.events.emplace_back(10 * (i + 1), event);
  }
  return parts;
}

GpuSpan span_of(std::vector<std::uint64_t> tasks, std::int64_t began, std::int64_t ended, std::uint16_t stream = 1) {
  GpuSpan span;
  span.device = gpu(0);
  span.stream = stream;
  span.tasks.assign(tasks.begin(), tasks.end());
  span.batch = tasks.size() > 1;
  span.began = began < 0 ? -1 : k_began + began;
  span.ended = ended < 0 ? -1 : k_began + ended;
  return span;
}

Trace finished(TraceParts&& parts) {
  std::vector<TraceEvent> events;
  for (auto& [order, event] : parts.events)
    events.push_back(std::move(event));
  return Trace(std::move(events), std::move(parts.threads), 100'000, std::move(parts.batches));
}

std::string row(const Trace& trace, int index) {
  return index < 0 ? "" : trace.threads().at(static_cast<std::size_t>(index)).name;
}

json chrome(const Trace& trace) {
  std::ostringstream out;
  trace.write_chrome(out);
  return json::parse(out.str()).at("traceEvents");
}

/// Slices by name: row, begin, end in nanoseconds.
using Slice = std::tuple<std::string, std::int64_t, std::int64_t>;
std::map<std::string, Slice> slices_of(const Trace& trace, const std::string& category) {
  std::map<std::string, Slice> slices;
  for (const json& event : chrome(trace)) {
    if (event.at("ph") != "X" || event.value("cat", "") != category)
      continue;
    const auto begin = std::llround(event.at("ts").get<double>() * 1000);
    const auto length = std::llround(event.at("dur").get<double>() * 1000);
    const bool fresh = slices
                           .emplace(
                               event.at("name").get<std::string>(),
                               Slice{row(trace, event.at("tid").get<int>() - 1), begin, begin + length})
                           .second;
    CHECK(fresh);
  }
  return slices;
}

}  // namespace

TEST_CASE("Trace: a GPU task starts and ends on its stream; when the host issued it is kept") {
  TraceParts parts = issued_tasks(3);
  add_gpu_spans(parts, {span_of({30}, 9000, 9500, 4), span_of({10}, 4000, 7000)}, k_began);
  const Trace trace = finished(std::move(parts));
  const TraceEvent& first = trace.events()[0];
  CHECK(row(trace, first.worker) == "gpu(0) compute 0");
  CHECK(first.started == 4000);
  CHECK(first.ended == 7000);
  CHECK(row(trace, first.issuer) == "main");
  CHECK(first.issued == 100);
  CHECK(first.issue_ended == 300);
  CHECK(first.outcome == TaskOutcome::ok);
  CHECK(row(trace, trace.events()[2].worker) == "gpu(0) compute 1");
  // Nothing is known of the second: the host's times stand for it.
  CHECK(trace.events()[1].issued == -1);
  CHECK(trace.events()[1].started == 1100);
  CHECK(row(trace, trace.events()[1].worker) == "main");
  CHECK(trace.batches().empty());
}

TEST_CASE("Trace: rows of streams come last, by GPU, kind and number, each named once") {
  TraceParts parts = issued_tasks(7);
  std::vector<GpuSpan> spans;
  for (int i = 0; i < 7; ++i)
    spans.push_back(span_of({10 * (static_cast<std::uint64_t>(i) + 1)}, 9000 + i, 9010 + i));
  spans[0].kind = StreamKind::copy_out;
  spans[0].stream = 3;
  spans[1].stream = 17;
  spans[2].device = gpu(1);
  spans[2].stream = 30;
  spans[3].kind = StreamKind::copy_in;
  spans[4].stream = 9;
  spans[5].stream = 9;
  spans[6].kind = StreamKind::collective;
  parts.events[6].second.worker = 1;
  add_gpu_spans(parts, spans, k_began);
  const Trace trace = finished(std::move(parts));
  std::vector<std::string> names;
  for (const TraceThread& thread : trace.threads()) {
    names.push_back(thread.name);
    CHECK(thread.stream == (thread.name[0] == 'g'));
  }
  CHECK(
      names == std::vector<std::string>{
                   "main",
                   "sluice-0",
                   "gpu(0) compute 0",
                   "gpu(0) compute 1",
                   "gpu(0) copy in",
                   "gpu(0) copy out",
                   "gpu(0) collective",
                   "gpu(1) compute 0"});
  CHECK(row(trace, trace.events()[1].worker) == "gpu(0) compute 1");
  CHECK(row(trace, trace.events()[4].worker) == "gpu(0) compute 0");
  CHECK(row(trace, trace.events()[5].worker) == "gpu(0) compute 0");
}

TEST_CASE("Trace: what a GPU has not begun or not ended when the trace stops is unfinished") {
  TraceParts parts = issued_tasks(2);
  add_gpu_spans(parts, {span_of({10}, 4000, -1), span_of({20}, -1, -1)}, k_began);
  const Trace trace = finished(std::move(parts));
  CHECK(trace.events()[0].started == 4000);
  CHECK(trace.events()[0].ended == -1);
  CHECK(trace.events()[0].outcome == TaskOutcome::unfinished);
  CHECK(row(trace, trace.events()[0].worker) == "gpu(0) compute 0");
  CHECK(trace.events()[1].started == -1);
  CHECK(trace.events()[1].outcome == TaskOutcome::unfinished);
  CHECK(trace.events()[1].worker == -1);
  CHECK(trace.events()[1].issued == 1100);
  std::map<std::string, std::string> kinds;
  for (const json& event : chrome(trace)) {
    if (event.value("cat", "") == "task")
      kinds[event.at("name").get<std::string>()] = event.at("ph").get<std::string>();
  }
  CHECK(kinds == std::map<std::string, std::string>{{"task 0", "B"}, {"task 1", "i"}});
}

TEST_CASE("Trace: a GPU does not begin before its host, whatever their clocks say") {
  TraceParts parts = issued_tasks(2);
  add_gpu_spans(parts, {span_of({10}, 40, 60), span_of({20}, 1050, 4000)}, k_began);
  const Trace trace = finished(std::move(parts));
  CHECK(trace.events()[0].started == 100);
  CHECK(trace.events()[0].ended == 100);
  CHECK(trace.events()[1].started == 1100);
  CHECK(trace.events()[1].ended == 4000);
}

TEST_CASE("Trace: a batch is one box with the names of its tasks, and they have its times") {
  TraceParts parts = issued_tasks(4);
  add_gpu_spans(
      parts, {span_of({10, 20, 30}, 5000, 8000), span_of({40}, 8000, 9000), span_of({77, 78}, 1, 2)}, k_began);
  const Trace trace = finished(std::move(parts));
  REQUIRE(trace.batches().size() == 1);
  const TraceBatch& batch = trace.batches()[0];
  CHECK(batch.name() == "batch of 3");
  CHECK(batch.tasks == std::vector<std::size_t>{0, 1, 2});
  CHECK(row(trace, batch.worker) == "gpu(0) compute 0");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(trace.events()[i].started == 5000);
    CHECK(trace.events()[i].ended == 8000);
    CHECK(trace.events()[i].batch == 0);
  }
  CHECK(trace.events()[3].batch == -1);

  CHECK(slices_of(trace, "task") == std::map<std::string, Slice>{{"task 3", {"gpu(0) compute 0", 8000, 9000}}});
  CHECK(slices_of(trace, "batch") == std::map<std::string, Slice>{{"batch of 3", {"gpu(0) compute 0", 5000, 8000}}});
  CHECK(slices_of(trace, "issue").at("issue task 1") == Slice{"main", 1100, 1300});
  CHECK(slices_of(trace, "issue").size() == 4);
  std::map<std::string, int> seen;
  for (const json& event : chrome(trace)) {
    if (event.value("cat", "") == "batch")
      CHECK(event.at("args").at("tasks") == json{{"0", "task 0"}, {"1", "task 1"}, {"2", "task 2"}});
    ++seen[event.at("ph").get<std::string>() + event.value("cat", "")];
  }
  CHECK(seen["sdependency"] == 1);  // inside a batch there is nothing to point from and to
  CHECK(seen["itask"] == 3);

  std::ostringstream out;
  trace.write_svg(out);
  std::istringstream in(out.str());
  boost::property_tree::ptree tree;
  CHECK_NOTHROW(boost::property_tree::read_xml(in, tree));
  CHECK_THAT(out.str(), contains("batch of 3\ntask 0 #0\ntask 1 #1\ntask 2 #2"));
  CHECK_THAT(out.str(), contains("gpu(0) compute 0"));
}

TEST_CASE("Trace: a batch that was issued again task by task shows what was last") {
  TraceParts parts = issued_tasks(2);
  add_gpu_spans(parts, {span_of({10, 20}, 4000, 4001), span_of({10}, 5000, 6000), span_of({20}, 6000, 7000)}, k_began);
  const Trace trace = finished(std::move(parts));
  CHECK(trace.events()[0].batch == -1);
  CHECK(trace.events()[0].started == 5000);
  CHECK(trace.events()[1].started == 6000);
  CHECK(trace.events()[1].issued == 1100);
  CHECK(row(trace, trace.events()[1].issuer) == "main");
}

TEST_CASE("Ranges of pushes and bodies nest, and name their tasks; without a listener nobody is told") {
  static thread_local std::vector<std::string> told;
  told.clear();
  static constexpr RangeHooks k_hooks{
      [](const char* kind, const char* name) noexcept { told.push_back(std::string(kind) + " " + name); },
      [](const char* kind) noexcept { told.push_back(std::string("end of ") + kind); }};
  Engine engine({.cpu_policy = CpuMode::serial});
  Var x = engine.new_var();
  engine.push({.name = "unheard", .access = {write(x)}}, [] {});
  CHECK(told.empty());
  range_hooks = &k_hooks;
  engine.push({.name = "a", .access = {write(x)}}, [] {});
  engine.push({.name = "b", .access = {write(x)}}, [] { throw ValueError("b"); });
  range_hooks = nullptr;
  CHECK(
      told == std::vector<std::string>{
                  "push a", "body a", "end of body", "end of push", "push b", "body b", "end of body", "end of push"});
  CHECK_THROWS_AS(engine.wait(x), ValueError);
}
