// Graphs as files: what is read computes what was written, and what is damaged is refused.
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::GraphFile;
using graph::Tracer;

namespace {

template <class Program>
GraphFile file_of(const Arrays& inputs, const Program& program, std::vector<NDArray>& constants) {
  Tracer tracer;
  Arrays traced;
  for (const NDArray& input : inputs)
    traced.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  const Graph graph = tracer.trace([&] { return program(traced); });
  GraphFile file{.graph = with_constants_as_inputs(graph, constants), .parameter_checksum = 0xabcd};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    file.inputs.push_back({message("in", i)});
  for (std::size_t i = 0; i < constants.size(); ++i)
    file.parameters.push_back({message("constant.", i), GradReq::null, 0.1, 2});
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    file.outputs.push_back(message("out", i));
  return file;
}

Arrays run(const Graph& graph, const Arrays& inputs, const std::vector<NDArray>& constants, Device device) {
  Arrays all;
  std::vector<ArraySpec> specs;
  for (const NDArray& input : inputs)
    all.push_back(input.to(device));
  for (const NDArray& constant : constants)
    all.push_back(constant.to(device));
  for (const NDArray& array : all)
    specs.push_back({array.shape(), array.dtype(), array.device()});
  return evaluate(with_inputs(graph, specs), all);
}

void check_round_trip(unsigned programs, Device from, Device to) {
  for (unsigned seed = 0; seed < programs; ++seed) {
    CAPTURE(seed);
    const RandomProgram program(seed, from), there(seed, to);
    std::vector<NDArray> constants;
    const auto call = [&](const Arrays& inputs) { return program.run(inputs); };
    const GraphFile file = file_of(program.inputs(), call, constants);
    const std::string text = to_json(file);
    const GraphFile read = graph::from_json(text, "a.json", to);
    CHECK(all_bytes(run(read.graph, there.inputs(), constants, to)) == all_bytes(there.run(there.inputs())));
    if (from == to) {
      std::vector<ArraySpec> specs;
      for (const graph::ValueId input : file.graph.inputs)
        specs.push_back(file.graph.values[input].spec);
      CHECK(is_same_program(with_inputs(read.graph, specs), with_inputs(file.graph, specs)));
    }
    CHECK(read.parameters.size() == constants.size());
    CHECK(read.outputs == file.outputs);
    CHECK(read.parameter_checksum == 0xabcd);
  }
}

// A program with every kind of attribute, constants, random numbers, writes in place.
Arrays rich_program(const Arrays& x, const NDArray& weight) {
  NDArray sums = x[0] * 2.5 + clip(x[0], -INFINITY, 0.1);
  sums.slice(1, 0, 1).assign(3.0);
  const NDArray drawn = sluice::random::uniform(-1, 1, {3, 4});
  return {
      dense(sums, weight, NDArray(), {.activation = "relu"}),
      sums + drawn,
      arange(0, 4).astype(float16),
      mean(sums, {0, 1}),
      x[0].reshape({-1, 2}).T()};
}

struct Rich {
  NDArray x = array<float>({1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12}, {3, 4});
  NDArray weight = full({5, 4}, 0.5f);
  std::vector<NDArray> constants;
  GraphFile file = file_of(
      {x}, [&](const Arrays& inputs) { return rich_program(inputs, weight); }, constants);
  std::string text = to_json(file);
};

std::string with_checksum(std::string text) {
  const std::size_t at = text.find("\"checksum\": \"");
  if (at == std::string::npos || text.size() < at + 21)
    return text;
  try {
    text.replace(at + 13, 8, graph::checksum_text(graph::text_checksum(text)));
  } catch (const ValueError&) {  // the head itself is damaged
  }
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return with_checksum(text.replace(at, what.size(), by));
}

}  // namespace

TEST_CASE("A graph that was written and read computes the same", "[graph]") {
  check_round_trip(150, cpu(), cpu());
}

TEST_CASE("A graph that was written on one device is read on another", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_round_trip(20, cpu(), gpu(0));
  check_round_trip(20, gpu(0), cpu());
}

TEST_CASE("A graph file keeps every kind of attribute, notes, names and random numbers", "[graph]") {
  Rich rich;
  rich.file.notes = {{"classes", "a \"b\"\n\\c"}, {"", "\x01"}};
  rich.file.inputs[0].batch = true;
  const GraphFile read = graph::from_json(to_json(rich.file), "rich.json");
  CHECK(read.notes == rich.file.notes);
  CHECK(read.inputs[0].batch);
  CHECK(read.parameters[0].lr_mult == 0.1);
  CHECK(read.parameters[0].wd_mult == 2);
  const auto drawn = [&](bool from_file) {
    Engine engine({.seed = 3});
    const EngineScope scope(engine);
    const Rich here;
    return all_bytes(
        from_file ? run(read.graph, {here.x}, here.constants, cpu()) : rich_program({here.x}, here.weight));
  };
  CHECK(drawn(true) == drawn(false));
  for (std::size_t at = 0; at < read.graph.nodes.size(); ++at) {
    const auto values = read.graph.nodes[at].attributes.values();
    CHECK(values == rich.file.graph.nodes[at].attributes.values());
    CHECK(message(read.graph.nodes[at].site.file).find("rich.json: ") == 0);
    CHECK(message(read.graph.nodes[at].site.file).find("/") == std::string::npos);
    CHECK(read.graph.nodes[at].site.line == rich.file.graph.nodes[at].site.line);
  }
}

TEST_CASE("A graph file that is damaged is refused, with the file and the place", "[graph]") {
  const std::string text = Rich().text;
  const auto refuses = [](const std::string& spoilt, const std::string& why) {
    const std::string error = text_of_error([&] { (void)graph::from_json(spoilt, "net.json"); });
    CAPTURE(error, why);
    CHECK(error.find("net.json: ") != std::string::npos);
    CHECK(error.find(why) != std::string::npos);
  };
  refuses("", "ends too early");
  refuses(text.substr(0, text.size() / 2), "ends too early");
  refuses("[1, 2]", "no graph file");
  refuses("{\"format\": \"ONNX\"}", "no graph file");
  refuses(text + "x", "not JSON");
  refuses(text + " ", "damaged");
  refuses(std::string(text).replace(text.find("dense"), 5, "Dense"), "damaged");
  refuses(replaced(text, "\"version\": 1,", "\"version\": 3,"), "version 3");
  refuses(replaced(text, "\"version\": 1,", "\"version\": \"1\","), "no whole number");
  refuses(replaced(text, "\"op\": \"dense_relu\"", "\"op\": \"tense\""), "no operator 'tense'");
  refuses(replaced(text, "\"value\": 2", "\"value\": 1"), "the next number");
  refuses(replaced(text, "\"inputs\": [0]", "\"inputs\": [99]"), "not made before");
  refuses(replaced(text, "\"inputs\": [0]", "\"inputs\": [-1]"), "no whole number");
  refuses(replaced(text, "\"inputs\": [0]", "\"inputs\": []"), "node 0 (clip)");
  refuses(replaced(text, "\"shape\": [3, 4]", "\"shape\": [3, -4]"), "inputs[0].shape[1]");
  refuses(replaced(text, "\"shape\": [3, 4]", "\"shape\": [4611686018427387904, 4]"), "no shape");
  refuses(replaced(text, "\"shape\": [3, 4]", "\"shape\": [1, 1, 1, 1, 1, 1, 1, 3, 4]"), "no shape");
  refuses(replaced(text, "\"shape\": [5, 4]", "\"shape\": [5, 3]"), "(dense_relu)");
  refuses(replaced(text, "\"shape\": [3, 5]", "\"shape\": [3, 6]"), "is said to be");
  refuses(replaced(text, "\"dtype\": \"float32\"", "\"dtype\": \"float31\""), "'float31'");
  refuses(replaced(text, "\"grad_req\": \"null\"", "\"grad_req\": \"no\""), "null, write and add");
  refuses(replaced(text, "\"lr_mult\": \"0.1\"", "\"lr_mult\": \"nan\""), "finite");
  refuses(replaced(text, "\"lr_mult\": \"0.1\"", "\"lr_mult\": 0.1"), "no text");
  refuses(replaced(text, "\"name\": \"constant.0\"", "\"name\": \"in0\""), "twice");
  refuses(replaced(text, "\"name\": \"out1\"", "\"name\": \"out0\""), "twice");
  refuses(replaced(text, "{\"real\": \"2.5\"}", "\"2.5\""), "number");
  refuses(replaced(text, "\"outputs\"", "\"Outputs\""), "has no \"outputs\"");
  CHECK_NOTHROW(graph::from_json(replaced(text, "\"line\": ", "\"line\": 1"), "net.json"));
}

namespace {

// One place of the text becomes another: bytes, numbers, or an operator.
std::string mutated(std::string text, std::mt19937& draw) {
  const std::string pieces[] = {"0", "-1", "99999999999", "null", "[]", "{}", "\"\"", "true", "\"nan\"", "7", "1"};
  const std::size_t at = draw() % text.size();
  const auto replace = [&](std::size_t begin, const char* until, bool in_word, const std::string& by) {
    if (begin == std::string::npos)
      return;
    const std::size_t end = in_word ? text.find_first_not_of(until, begin) : text.find_first_of(until, begin);
    if (end != std::string::npos)
      text.replace(begin, end - begin, by);
  };
  switch (draw() % 6) {
    case 0:
      text[at] = static_cast<char>(draw());
      break;
    case 1:
      text.erase(at, 1 + draw() % 40);
      break;
    case 2:
      text.insert(at, text.substr(draw() % text.size(), draw() % 60));
      break;
    case 3: {
      const auto all = operators();
      if (const std::size_t op = text.find("\"op\": \"", at); op != std::string::npos)
        replace(op + 7, "\"", false, all[draw() % all.size()]->name);
      break;
    }
    default:
      replace(text.find_first_of("0123456789", at), "0123456789", true, pieces[draw() % std::size(pieces)]);
  }
  return text;
}

}  // namespace

TEST_CASE("A damaged graph file gives a graph that runs, or a typed error", "[graph]") {
  const Rich rich;
  const std::string loops = to_json(file_of(graph::without_dead_code(traced(all_kinds(40), pair(3)))));
  std::mt19937 draw(7);
  int whole = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    std::string text = i % 3 == 2 ? loops : rich.text;
    for (std::size_t changes = 1 + draw() % 3; changes > 0; --changes)
      text = mutated(text, draw);
    if (draw() % 10 != 0)
      text = with_checksum(text);
    try {
      const GraphFile read = graph::from_json(text, "net.json");
      Arrays inputs;
      for (const graph::ValueId input : read.graph.inputs) {
        const ArraySpec& spec = read.graph.values[input].spec;
        inputs.push_back(zeros(spec.shape, {.dtype = spec.dtype}));
      }
      for (const NDArray& output : evaluate(read.graph, inputs))
        output.wait_to_read();
      ++whole;
    } catch (const Error& error) {
      CHECK(!error.message().empty());
      ++refused;
    }
  }
  CAPTURE(whole, refused);
  CHECK(whole >= 50);
  CHECK(refused >= 1000);
}

TEST_CASE("What no reader could take is not written", "[graph]") {
  Rich rich;
  rich.file.outputs.pop_back();
  CHECK_THROWS_AS(to_json(rich.file), ValueError);
  Rich rough;
  rough.file.inputs[0].name = "\xff";
  CHECK_THROWS_AS(to_json(rough.file), ValueError);
  Rich twice;
  twice.file.parameters[0].name = twice.file.inputs[0].name;
  CHECK_THROWS_AS(to_json(twice.file), ValueError);
  Rich batched;
  batched.file.inputs[0].batch = true;
  batched.file.graph.values[batched.file.graph.inputs[0]].spec.shape = {};
  CHECK_THROWS_AS(to_json(batched.file), ValueError);
}

TEST_CASE("A device that no machine has is refused where a graph file names it", "[graph]") {
  const Rich rich;
  for (const char* device : {"gpu(32767)", "gpu(1023)", "gpu(99999999999)"}) {
    const std::string shape = "\"shape\":";
    const std::string changed = replaced(rich.text, shape, message("\"device\": \"", device, "\", ", shape));
    CHECK_THROWS_AS(graph::from_json(changed, "far.json"), DeviceError);
    CHECK_THROWS_WITH(graph::from_json(changed, "far.json"), contains("far.json") && contains(device));
  }
}
