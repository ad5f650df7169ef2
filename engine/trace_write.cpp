// A trace as Chrome's trace events and as a Graphviz graph.
#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include <sluice/engine/detail/trace_text.h>
#include <sluice/engine/origin.h>

namespace sluice {

using detail::dot_string;
using detail::json_string;
using detail::microseconds;
using detail::name_of;

namespace {

bool has_run(const TraceEvent& event) {
  return event.started >= 0 && event.ended >= 0;
}

/// Writes the parts between the brackets of "traceEvents". Row r is thread r + 1; 0 is for what no thread owns.
class ChromeWriter {
 public:
  ChromeWriter(std::ostream& out, const Trace& trace) : out_(out), trace_(trace) {}

  void metadata() {
    open("M", 0) << R"(,"name":"process_name","args":{"name":"Sluice"}})";
    for (std::size_t row = 0; row < trace_.threads().size(); ++row) {
      const auto tid = static_cast<int>(row);
      open("M", tid) << R"(,"name":"thread_name","args":{"name":)" << json_string(trace_.threads()[row].name) << "}}";
      open("M", tid) << R"(,"name":"thread_sort_index","args":{"sort_index":)" << row << "}}";
    }
  }

  // A finished task is a slice, a running one a slice without an end, any other a mark in the row of its pusher. Tasks
  // of a batch lie in the slice of that.
  void task(std::size_t number) {
    const TraceEvent& event = trace_.events()[number];
    if (event.started >= 0 || event.issued >= 0) {
      open("i", event.pusher) << R"(,"s":"t","cat":"push","name":)" << json_string("push " + event.name) << R"(,"ts":)"
                              << microseconds(event.pushed) << R"(,"args":{"task":)" << number << "}}";
    }
    if (event.issued >= 0) {
      slice(event.issuer, event.issued, event.issue_ended)
          << R"(,"cat":"issue","name":)" << json_string("issue " + event.name) << R"(,"args":{"task":)" << number
          << "}}";
    }
    const bool alone = event.started >= 0 && event.batch < 0;
    if (alone) {
      slice(event.worker, event.started, event.ended);
    } else {
      open("i", event.pusher) << R"(,"s":"t","ts":)" << microseconds(event.pushed);
    }
    out_ << R"(,"cat":"task","name":)" << json_string(event.name);
    arguments(number, event);
    out_ << "}";
  }

  void batch(const TraceBatch& batch) {
    if (batch.started < 0)
      return;
    slice(batch.worker, batch.started, batch.ended)
        << R"(,"cat":"batch","name":)" << json_string(batch.name()) << R"(,"args":{"tasks":{)";
    for (std::size_t i = 0; i < batch.tasks.size(); ++i)
      out_ << (i == 0 ? "\"" : ",\"") << batch.tasks[i] << R"(":)" << json_string(trace_.events()[batch.tasks[i]].name);
    out_ << "}}}";
  }

  // Both ends lie inside the slices that they join; a slice is at least 1 ns long.
  void flow(std::size_t number, const TraceEdge& edge) {
    const TraceEvent &from = trace_.events()[edge.from], &to = trace_.events()[edge.to];
    if (!has_run(from) || to.started < 0 || (from.batch >= 0 && from.batch == to.batch))
      return;
    const char* rest = R"(,"cat":"dependency","name":"dependency","id":)";
    open("s", from.worker) << rest << number << R"(,"ts":)" << microseconds(std::max(from.started, from.ended - 1))
                           << "}";
    open("f", to.worker) << rest << number << R"(,"bp":"e","ts":)" << microseconds(to.started) << "}";
  }

 private:
  // At least 1 ns long; without an end where that is not known.
  std::ostream& slice(int row, std::int64_t started, std::int64_t ended) {
    if (ended < 0)
      return open("B", row) << R"(,"ts":)" << microseconds(started);
    return open("X", row) << R"(,"dur":)" << microseconds(std::max<std::int64_t>(ended - started, 1)) << R"(,"ts":)"
                          << microseconds(started);
  }

  std::ostream& open(const char* kind, int row) {
    out_ << (std::exchange(first_, false) ? "\n" : ",\n") << R"({"ph":")" << kind << R"(","pid":1,"tid":)" << row + 1;
    return out_;
  }

  void arguments(std::size_t number, const TraceEvent& event) {
    out_ << R"(,"args":{"task":)" << number << R"(,"outcome":")" << to_string(event.outcome) << R"(","priority":")"
         << name_of(event.priority) << R"(","device":)" << json_string(to_string(event.device)) << R"(,"site":)"
         << json_string(std::string(event.site.file) + ":" + std::to_string(event.site.line)) << R"(,"pushed":)"
         << microseconds(event.pushed);
    if (const Origin* origin = Origin::of(event.site))
      out_ << R"(,"for":)" << json_string(origin->what());
    if (event.ready >= 0)
      out_ << R"(,"ready":)" << microseconds(event.ready);
    if (event.issued >= 0)
      out_ << R"(,"issued":)" << microseconds(event.issued);
    if (event.batch >= 0)
      out_ << R"(,"batch":)" << event.batch;
    rate(event, "bytes", event.bytes, "GB/s");
    rate(event, "work", event.work, "GOP/s");
    out_ << R"(,"vars":{)";
    for (std::size_t i = 0; i < event.vars.size(); ++i)
      out_ << (i == 0 ? "\"" : ",\"") << event.vars[i].id << R"(":")" << name_of(event.vars[i].mode) << '"';
    out_ << "}}";
  }

  // So many in a nanosecond are so many 10^9 in a second.
  void rate(const TraceEvent& event, const char* what, std::uint64_t amount, const char* unit) {
    if (amount == 0)
      return;
    out_ << ",\"" << what << "\":" << amount;
    if (event.outcome == TaskOutcome::ok && event.batch < 0 && event.ended > event.started)
      out_ << ",\"" << unit << "\":" << static_cast<double>(amount) / static_cast<double>(event.ended - event.started);
  }

  std::ostream& out_;
  const Trace& trace_;
  bool first_ = true;
};

const char* dot_style(TaskOutcome outcome) {
  switch (outcome) {
    case TaskOutcome::ok:
      return R"(style=filled, fillcolor="#e8f0fe")";
    case TaskOutcome::failed:
      return R"(style=filled, fillcolor="#f4b6b0")";
    case TaskOutcome::skipped:
    case TaskOutcome::cancelled:
      return R"(style="filled,dashed", fillcolor="#eeeeee")";
    case TaskOutcome::unfinished:
      break;
  }
  return "style=dotted";
}

}  // namespace

void Trace::write_chrome(std::ostream& out) const {
  ChromeWriter writer(out, *this);
  out << R"({"displayTimeUnit":"ns","traceEvents":[)";
  writer.metadata();
  for (std::size_t i = 0; i < events_.size(); ++i)
    writer.task(i);
  for (const TraceBatch& batch : batches_)
    writer.batch(batch);
  std::size_t number = 0;
  for (const TraceEdge& edge : edges())
    writer.flow(number++, edge);
  out << "\n]}\n";
}

void Trace::write_dot(std::ostream& out) const {
  out << "digraph trace {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const TraceEvent& event = events_[i];
    std::string label = event.name + "\n#" + std::to_string(i) + " ";
    label += event.outcome == TaskOutcome::ok && has_run(event) ? microseconds(event.ended - event.started) + " us"
                                                                : to_string(event.outcome);
    out << "  t" << i << " [label=" << dot_string(label) << ", tooltip=" << dot_string(detail::short_site(event.site))
        << ", " << dot_style(event.outcome) << "];\n";
  }
  for (const TraceEdge& edge : edges()) {
    out << "  t" << edge.from << " -> t" << edge.to << " [label=\"";
    for (std::size_t i = 0; i < edge.vars.size(); ++i)
      out << (i == 0 ? "" : ", ") << edge.vars[i];
    out << "\"];\n";
  }
  out << "}\n";
}

void Trace::write_chrome(const std::filesystem::path& path) const {
  detail::write_file(path, [this](std::ostream& out) { write_chrome(out); });
}
void Trace::write_dot(const std::filesystem::path& path) const {
  detail::write_file(path, [this](std::ostream& out) { write_dot(out); });
}
void Trace::write_svg(const std::filesystem::path& path, const TraceSvgOptions& options) const {
  detail::write_file(path, [&](std::ostream& out) { write_svg(out, options); });
}

}  // namespace sluice
