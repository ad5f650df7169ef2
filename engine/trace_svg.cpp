// A trace as a picture: a row a thread, a box a task, a tick a push.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/detail/trace_text.h>

namespace sluice {

using detail::microseconds;
using detail::xml_text;

namespace {

constexpr std::array<const char*, 10> k_colours = {
    "#8ecae6", "#ffd166", "#a8dadc", "#cdb4db", "#b5e48c", "#f4a261", "#90be6d", "#e5989b", "#bde0fe", "#e9c46a"};
constexpr int k_row = 50, k_box = 26, k_top = 34, k_letter = 7;  // pixels; a letter of 11 px text is seldom wider

std::string number(double value) {
  const auto tenths = static_cast<long long>(std::llround(value * 10));
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0)
    text.append(1, '.').append(std::to_string(tenths % 10));
  return text;
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
std::int64_t round_up(double wanted) {
  for (std::int64_t power = 1;; power *= 10) {
    for (int factor : {1, 2, 5}) {
      if (static_cast<double>(factor * power) >= wanted)
        return factor * power;
    }
  }
}

std::string duration_text(std::int64_t nanoseconds) {
  if (nanoseconds >= 1'000'000)
    return number(static_cast<double>(nanoseconds) / 1e6) + " ms";
  return number(static_cast<double>(nanoseconds) / 1e3) + " us";
}

class Picture {
 public:
  Picture(std::ostream& out, const Trace& trace, int width) : out_(out), trace_(trace) {
    for (const TraceThread& thread : trace.threads())
      left_ = std::max(left_, 16 + k_letter * static_cast<int>(thread.name.size()));
    width_ = std::max(width, left_ + 200);
    begin_ = trace.events().empty() ? 0 : trace.duration();
    end_ = trace.events().empty() ? trace.duration() : 0;
    bool unfinished = false;
    for (const TraceEvent& event : trace.events()) {
      begin_ = std::min(begin_, event.pushed);
      end_ = std::max({end_, event.pushed, event.ended});
      unfinished |= event.outcome == TaskOutcome::unfinished;
      if (event.started >= 0 && event.batch < 0 && styles_.emplace(event.name, names_.size()).second)
        names_.push_back(event.name);
    }
    for (const TraceBatch& batch : trace.batches()) {
      if (batch.started >= 0 && styles_.emplace(batch.name(), names_.size()).second)
        names_.push_back(batch.name());
      end_ = std::max(end_, batch.ended);
    }
    if (unfinished)
      end_ = std::max(end_, trace.duration());
    end_ = std::max(end_, begin_ + 1);
  }

  void frame() {
    const int rows = static_cast<int>(trace_.threads().size());
    legend_ = k_top + rows * k_row + 22;
    out_
        << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width_ << R"(" height=")" << legend_ + 28
        << R"(" viewBox="0 0 )" << width_ << ' ' << legend_ + 28
        << R"(" font-family="Helvetica, Arial, sans-serif" font-size="11">)" << '\n'
        << R"(<defs><marker id="arrow" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="5" markerHeight="5" orient="auto">)"
        << R"(<path d="M0 0L6 3L0 6z" fill="#444" fill-opacity="0.6"/></marker></defs>)" << '\n'
        << R"(<rect width="100%" height="100%" fill="#ffffff"/>)" << '\n';
    for (int row = 0; row < rows; ++row) {
      if (row % 2 == 0)
        out_ << R"(<rect x="0" y=")" << top_of(row) << R"(" width=")" << width_ << R"(" height=")" << k_row
             << R"(" fill="#f6f8fa"/>)" << '\n';
      out_ << R"(<text x="8" y=")" << top_of(row) + k_row / 2 + 4 << R"(">)"
           << xml_text(trace_.threads()[static_cast<std::size_t>(row)].name) << "</text>\n";
    }
    const std::int64_t step = round_up(static_cast<double>(end_ - begin_) / 10);
    for (std::int64_t time = 0; time <= end_ - begin_; time += step) {
      const std::string x = number(x_of(begin_ + time));
      out_ << R"(<path d="M)" << x << " 24V" << k_top + rows * k_row << R"(" stroke="#d0d7de"/><text x=")" << x
           << R"(" y="18" text-anchor="middle" fill="#57606a">)" << duration_text(time) << "</text>\n";
    }
  }

  // Nested tasks (a body that waits lets the serial policy run others on its stack) lie inside one another.
  void boxes() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < trace_.events().size(); ++i) {
      if (trace_.events()[i].started >= 0 && trace_.events()[i].worker >= 0 && trace_.events()[i].batch < 0)
        order.push_back(i);
    }
    // What did not run takes no time: drawn last, so that it is seen at all.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const TraceEvent &left = trace_.events()[a], &right = trace_.events()[b];
      return std::pair(left_out(left.outcome), left.started) < std::pair(left_out(right.outcome), right.started);
    });
    std::vector<std::vector<std::int64_t>> open(trace_.threads().size());
    for (std::size_t i : order) {
      const TraceEvent& event = trace_.events()[i];
      auto& ends = open[static_cast<std::size_t>(event.worker)];
      std::erase_if(ends, [&](std::int64_t end) { return end <= event.started; });
      box(event, title(i, event), std::min(static_cast<int>(ends.size()), 4));
      ends.push_back(event.ended < 0 ? end_ : event.ended);
    }
    for (const TraceBatch& batch : trace_.batches()) {
      if (batch.started >= 0)
        batch_box(batch);
    }
  }

  void pushes() {
    for (const TraceEvent& event : trace_.events()) {
      if (event.pusher < 0)
        continue;
      out_ << R"(<path d="M)" << number(x_of(event.pushed)) << ' ' << top_of(event.pusher) + k_row - 7
           << R"(v6" stroke="#57606a"><title>push )" << xml_text(event.name) << "</title></path>\n";
    }
  }

  void arrows() {
    for (const TraceEdge& edge : trace_.edges()) {
      const TraceEvent &from = trace_.events()[edge.from], &to = trace_.events()[edge.to];
      if (from.ended < 0 || to.started < 0 || from.worker < 0 || to.worker < 0)
        continue;
      if (from.batch >= 0 && from.batch == to.batch)
        continue;
      const double x1 = x_of(from.ended), x2 = x_of(to.started), bend = std::max(4.0, (x2 - x1) / 2);
      const bool down = to.worker > from.worker, same = to.worker == from.worker;
      if (same && x2 - x1 < 3)
        continue;  // side by side: an arrow would hide more than it says
      const int y1 = top_of(from.worker) + 6 + (down || same ? k_box : 0);
      const int y2 = top_of(to.worker) + 6 + (down ? 0 : k_box);
      const int arc = same ? 9 : 0;  // below its row, so that names stay readable
      out_ << R"(<path d="M)" << number(x1) << ' ' << y1 << 'C' << number(x1 + bend) << ' ' << y1 + arc << ' '
           << number(x2 - bend) << ' ' << y2 + arc << ' ' << number(x2) << ' ' << y2
           << R"(" fill="none" stroke="#444" stroke-opacity="0.45" )"
           << "marker-end=\"url(#arrow)\"/>\n";
    }
  }

  void legend() {
    int x = left_;
    auto entry = [&](const std::string& style, const std::string& text) {
      const int needed = 28 + k_letter * static_cast<int>(text.size());
      if (x + needed > width_)
        return;
      out_ << R"(<rect x=")" << x << R"(" y=")" << legend_ - 10 << R"(" width="12" height="12" rx="2" )" << style
           << R"(/><text x=")" << x + 17 << R"(" y=")" << legend_ << R"(">)" << xml_text(text) << "</text>\n";
      x += needed;
    };
    entry(style_of(TaskOutcome::failed, "#ffffff"), "failed");
    entry(style_of(TaskOutcome::skipped, "#ffffff"), "skipped or cancelled");
    entry(R"(fill="#57606a")", "tick: push");
    for (std::size_t i = 0; i < names_.size(); ++i)
      entry(style_of(TaskOutcome::ok, colour(i)), names_[i]);
    out_ << "</svg>\n";
  }

 private:
  double x_of(std::int64_t time) const {
    return left_ + (width_ - left_ - 30) * (static_cast<double>(time - begin_) / static_cast<double>(end_ - begin_));
  }
  static int top_of(int row) { return k_top + row * k_row; }
  static const char* colour(std::size_t name) { return k_colours[name % k_colours.size()]; }

  static bool left_out(TaskOutcome outcome) {
    return outcome == TaskOutcome::skipped || outcome == TaskOutcome::cancelled;
  }

  static std::string style_of(TaskOutcome outcome, const std::string& fill) {
    std::string style = R"(fill=")" + (left_out(outcome) ? std::string("#ffffff") : fill) + R"(" stroke=")";
    style += outcome == TaskOutcome::failed ? R"(#cf222e" stroke-width="2)" : "#57606a";
    return style + (left_out(outcome) || outcome == TaskOutcome::unfinished ? R"(" stroke-dasharray="3 2")" : R"(")");
  }

  void batch_box(const TraceBatch& batch) {
    TraceEvent like;
    like.name = batch.name();
    like.worker = batch.worker;
    like.started = batch.started;
    like.ended = batch.ended;
    like.outcome = batch.ended < 0 ? TaskOutcome::unfinished : TaskOutcome::ok;
    std::string text = batch.name();
    for (std::size_t task : batch.tasks)
      text += "\n" + trace_.events()[task].name + " #" + std::to_string(task);
    box(like, text, 0);
  }

  void box(const TraceEvent& event, const std::string& text, int depth) {
    const double x = x_of(event.started), right = x_of(event.ended < 0 ? end_ : event.ended);
    const double width = std::max(right - x, left_out(event.outcome) ? 5.0 : 1.5);
    const int y = top_of(event.worker) + 6 + 3 * depth, height = k_box - 6 * depth;
    out_ << R"(<g><rect x=")" << number(x) << R"(" y=")" << y << R"(" width=")" << number(width) << R"(" height=")"
         << height << R"(" rx="2" )" << style_of(event.outcome, colour(styles_.at(event.name))) << "/>";
    const auto room = static_cast<std::size_t>(std::max(0.0, width - 2) / (k_letter - 0.5));
    if (room >= event.name.size() && depth == 0)
      out_ << R"(<text x=")" << number(x + width / 2) << R"(" y=")" << y + height / 2 + 4
           << R"(" text-anchor="middle">)" << xml_text(event.name) << "</text>";
    out_ << "<title>" << xml_text(text) << "</title></g>\n";
  }

  static std::string title(std::size_t index, const TraceEvent& event) {
    std::string text = event.name + " #" + std::to_string(index) + ", " + to_string(event.outcome) + ", " +
                       detail::name_of(event.priority) + "\n" + detail::short_site(event.site);
    const std::pair<const char*, std::int64_t> times[] = {
        {"\npushed ", event.pushed},
        {"\nready ", event.ready},
        {"\nissued ", event.issued},
        {"\nstarted ", event.started},
        {"\nended ", event.ended}};
    for (const auto& [what, time] : times)
      text += time < 0 ? "" : what + microseconds(time) + " us";
    for (const TraceVar& var : event.vars)
      text += std::string("\n") + detail::name_of(var.mode) + " " + std::to_string(var.id);
    return text;
  }

  std::ostream& out_;
  const Trace& trace_;
  int left_ = 60, width_ = 0, legend_ = 0;
  std::int64_t begin_ = 0, end_ = 0;
  std::map<std::string, std::size_t> styles_;  // by name: position in names_
  std::vector<std::string> names_;
};

}  // namespace

void Trace::write_svg(std::ostream& out, const TraceSvgOptions& options) const {
  Picture picture(out, *this, options.width);
  picture.frame();
  picture.boxes();
  picture.pushes();
  if (options.arrows)
    picture.arrows();
  picture.legend();
}

}  // namespace sluice
