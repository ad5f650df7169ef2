// Traces as files: what other programs read in them is what happened.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>

#include "tests/engine/dag.h"
#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using nlohmann::json;

namespace {

const char* const k_nasty = "quote \" back\\slash\n<tag> & \x01 \xC3\xA9 \xFF\xC3 \xED\xA0\x80";
const char* const k_nasty_as_utf8 =
    "quote \" back\\slash\n<tag> & \x01 \xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";

/// A trace of 400 random tasks, one in five of which fails or is skipped, all finished.
Trace random_trace() {
  Engine engine({.workers = 3});
  const Program program = random_program(5, 400, 12, 1);
  std::vector<Var> vars(program.cells);
  for (Var& var : vars)
    var = engine.new_var();
  engine.start_trace();
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    engine.push(
        {.name = TaskName::lasting(i % 2 == 0 ? "even" : "odd"), .access = access_of(program.steps[i], vars)},
        [i] { require(i % 50 != 49, [] { return "one in fifty"; }); });
  }
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  return engine.stop_trace();
}

/// One task of each kind, written by hand.
Trace small_trace() {
  std::vector<TraceEvent> events(5);
  for (std::size_t i = 0; i < events.size(); ++i) {
    TraceEvent& event = events[i];
    event.name = "task " + std::to_string(i);
    event.site = {"a \"b\"\\c.cpp", 10 + static_cast<int>(i)};
    event.pusher = 1;
    event.pushed = 1000 * static_cast<std::int64_t>(i);
    event.vars = {{7, AccessMode::write}};
  }
  events[0].name = k_nasty;
  events[0].outcome = TaskOutcome::ok;
  events[1].outcome = TaskOutcome::failed;
  events[2].outcome = TaskOutcome::skipped;
  for (std::size_t i = 0; i < 4; ++i) {
    events[i].ready = events[i].pushed + 1;
    events[i].started = 10'000 * static_cast<std::int64_t>(i + 1) + 5;
    events[i].worker = 0;
  }
  for (std::size_t i = 0; i < 3; ++i)
    events[i].ended = events[i].started + static_cast<std::int64_t>(i) * 1234;  // the first takes no time at all
  return Trace(events, {{"pool-0", true}, {"main <&>", false}, {"unused", true}}, 50'000);
}

json chrome(const Trace& trace) {
  std::ostringstream out;
  trace.write_chrome(out);
  return json::parse(out.str());
}

std::string svg(const Trace& trace, const TraceSvgOptions& options = {}) {
  std::ostringstream out;
  trace.write_svg(out, options);
  return out.str();
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::int64_t nanoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

}  // namespace

TEST_CASE("Trace as Chrome JSON: it parses, and holds every task with its times, Vars and site") {
  const Trace trace = random_trace();
  const json read = chrome(trace);
  std::set<std::size_t> tasks;
  for (const json& event : read.at("traceEvents")) {
    if (event.value("cat", "") != "task")
      continue;
    const auto& arguments = event.at("args");
    const auto task = arguments.at("task").get<std::size_t>();
    CHECK(tasks.insert(task).second);
    const TraceEvent& wanted = trace.events().at(task);
    bool same = event.at("ph") == "X" && event.at("name") == wanted.name && event.at("tid") == wanted.worker + 1;
    same = same && nanoseconds(event.at("ts")) == wanted.started;
    same = same && nanoseconds(event.at("dur")) == std::max<std::int64_t>(wanted.ended - wanted.started, 1);
    same = same && nanoseconds(arguments.at("pushed")) == wanted.pushed;
    same = same && nanoseconds(arguments.at("ready")) == wanted.ready;
    same = same && arguments.at("outcome") == to_string(wanted.outcome) && arguments.at("device") == "cpu(0)";
    same = same && arguments.at("site") == std::string(__FILE__) + ":" + std::to_string(wanted.site.line);
    same = same && arguments.at("vars").size() == wanted.vars.size();
    for (const TraceVar& var : wanted.vars) {
      const char* modes[] = {"read", "write", "out"};
      same = same && arguments.at("vars").at(std::to_string(var.id)) == modes[static_cast<int>(var.mode)];
    }
    if (!same)
      FAIL_CHECK("task " << task << " differs: " << event.dump());
  }
  CHECK(tasks.size() == trace.events().size());
}

TEST_CASE("Trace as Chrome JSON: arrows begin and end inside the tasks that they join") {
  const Trace trace = random_trace();
  const json read = chrome(trace);
  const std::vector<TraceEdge> edges = trace.edges();
  std::vector<int> ends(edges.size(), 0);
  int wrong = 0;
  for (const json& event : read.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind != "s" && kind != "f")
      continue;
    const auto id = event.at("id").get<std::size_t>();
    ends.at(id) += kind == "s" ? 1 : 10;
    const TraceEvent& task = trace.events()[kind == "s" ? edges[id].from : edges[id].to];
    const std::int64_t time = nanoseconds(event.at("ts"));
    wrong += event.at("tid") != task.worker + 1 || time < task.started ? 1 : 0;
    wrong += time >= std::max(task.ended, task.started + 1) || (kind == "f" && event.at("bp") != "e") ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(std::count(ends.begin(), ends.end(), 11) == static_cast<std::ptrdiff_t>(edges.size()));
}

TEST_CASE("Trace as Chrome JSON: any name is escaped, unfinished tasks are marks, threads have names") {
  const json read = chrome(small_trace());
  std::map<std::string, std::string> kinds;
  std::set<std::string> threads;
  for (const json& event : read.at("traceEvents")) {
    if (event.at("name") == "thread_name")
      threads.insert(event.at("args").at("name").get<std::string>());
    if (event.value("cat", "") == "task")
      kinds[event.at("name").get<std::string>()] = event.at("ph").get<std::string>();
  }
  CHECK(threads == std::set<std::string>{"main <&>", "pool-0"});
  const std::map<std::string, std::string> wanted = {
      {k_nasty_as_utf8, "X"}, {"task 1", "X"}, {"task 2", "X"}, {"task 3", "B"}, {"task 4", "i"}};
  CHECK(kinds == wanted);
}

TEST_CASE(
    "Trace as Chrome JSON: what a task says it moves and computes stands there, with the rate where it ran alone") {
  std::vector<TraceEvent> events(4);
  for (TraceEvent& event : events) {
    event.name = "task";
    event.pushed = 0;
    event.ready = 1;
    event.pusher = event.worker = 0;
    event.started = 1000;
    event.ended = 3000;
    event.outcome = TaskOutcome::ok;
    event.bytes = 5000;
    event.work = 300;
  }
  events[1].outcome = TaskOutcome::failed;
  events[2].batch = 0;
  events[3].bytes = 0;
  events[3].ended = events[3].started;
  std::ostringstream out;
  Trace(events, {{"main", false}}, 4000, {{0, 1000, 3000, {2}}}).write_chrome(out);
  std::vector<json> found;
  const json written = json::parse(out.str());
  for (const json& each : written["traceEvents"]) {
    if (each.value("cat", "") == "task")
      found.push_back(each["args"]);
  }
  REQUIRE(found.size() == 4);
  CHECK(found[0]["bytes"] == 5000);
  CHECK(found[0]["work"] == 300);
  CHECK(found[0]["GB/s"] == 2.5);
  CHECK(found[0]["GOP/s"] == 0.15);
  for (const std::size_t i : {1u, 2u}) {
    CHECK(found[i]["bytes"] == 5000);
    CHECK_FALSE(found[i].contains("GB/s"));
  }
  CHECK_FALSE(found[3].contains("bytes"));
  CHECK(found[3]["work"] == 300);
  CHECK_FALSE(found[3].contains("GOP/s"));
}

TEST_CASE("Trace: a task's estimates are in it, whoever pushed it and whether it has extras or not") {
  Engine engine({.workers = 1});
  const Var x = engine.new_var();
  engine.start_trace();
  engine.push({.name = "plain", .access = {write(x)}}, [] {});
  engine.push({.name = "moves", .access = {write(x)}, .bytes = 1ull << 40}, [] {});
  std::stop_source stop;
  engine.push({.name = TaskName(std::string("computes")), .stop = stop.get_token(), .bytes = 3, .work = 7}, [] {});
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 3);
  CHECK((trace.events()[0].bytes == 0 && trace.events()[0].work == 0));
  CHECK((trace.events()[1].bytes == 1ull << 40 && trace.events()[1].work == 0));
  CHECK((trace.events()[2].bytes == 3 && trace.events()[2].work == 7));
}

TEST_CASE("Trace as a DOT graph: a node a task, an edge a dependency") {
  const Trace trace = random_trace();
  std::ostringstream out;
  trace.write_dot(out);
  std::set<std::pair<std::size_t, std::size_t>> found, wanted;
  std::size_t nodes = 0;
  std::istringstream lines(out.str());
  const std::regex edge(R"re(  t(\d+) -> t(\d+) \[label="([\d, ]+)"\];)re");
  const std::regex node(R"re(  t(\d+) \[label="(even|odd)\\n#\1 [^"]+", tooltip="[^"]+", style=.*\];)re");
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (std::regex_match(line, parts, edge))
      CHECK(found.emplace(std::stoul(parts[1]), std::stoul(parts[2])).second);
    nodes += std::regex_match(line, parts, node) ? 1 : 0;
  }
  for (const TraceEdge& dependency : trace.edges())
    wanted.emplace(dependency.from, dependency.to);
  CHECK(found == wanted);
  CHECK(nodes == trace.events().size());
  std::ostringstream nasty;
  small_trace().write_dot(nasty);
  CHECK_THAT(nasty.str(), contains(R"([label="quote \" back\\slash\n<tag> &)"));
}

TEST_CASE("Trace as a picture: well-formed, a box for every task that started, arrows if wanted") {
  const Trace trace = random_trace();
  const std::string drawn = svg(trace), plain = svg(trace, {.width = 600, .arrows = false});
  for (const std::string& text : {drawn, plain, svg(small_trace()), svg(Trace())}) {
    std::istringstream in(text);
    boost::property_tree::ptree tree;
    CHECK_NOTHROW(boost::property_tree::read_xml(in, tree));
    CHECK(tree.count("svg") == 1);
  }
  CHECK(occurrences(drawn, "<g><rect") == trace.events().size());
  CHECK(occurrences(drawn, "<title>push ") == trace.events().size());
  CHECK(occurrences(drawn, "marker-end") > 0);
  CHECK(occurrences(plain, "marker-end") == 0);
  CHECK_THAT(plain, contains("width=\"600\""));
  CHECK_THAT(svg(small_trace()), contains("&lt;tag&gt; &amp;"));
  CHECK(occurrences(svg(small_trace()), "<g><rect") == 4);
}

TEST_CASE("Trace: files are written where asked, and a path that cannot be written is named") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice_trace_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const Trace trace = small_trace();
  trace.write_chrome(folder / "trace.json");
  trace.write_dot(folder / "trace.dot");
  trace.write_svg(folder / "trace.svg");
  std::ifstream in(folder / "trace.json");
  CHECK(json::parse(in).at("traceEvents").size() == chrome(trace).at("traceEvents").size());
  CHECK(std::filesystem::file_size(folder / "trace.dot") > 100);
  CHECK(std::filesystem::file_size(folder / "trace.svg") == svg(trace).size());
  const auto nowhere = folder / "nowhere" / "trace";
  CHECK_THROWS_AS(trace.write_dot(nowhere), FileError);
  CHECK_THAT(text_of_error([&] { trace.write_svg(nowhere); }), contains("nowhere"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 10, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = text_of_error([&] { trace.write_svg(folder / "half.svg"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(said, contains("half.svg cannot be written: File too large"));
  CHECK_FALSE(std::filesystem::exists(folder / "half.svg"));
  std::filesystem::remove_all(folder);
  CHECK_THROWS_AS(trace.write_chrome(std::filesystem::path("/dev/full")), FileError);
  CHECK(std::filesystem::is_character_file("/dev/full"));
}
