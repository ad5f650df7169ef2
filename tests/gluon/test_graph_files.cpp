// Files of exported networks: damaged ones are refused, old ones stay readable.
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/resource.h>

#include <sluice/operator/graph/file.h>

#include "tests/engine/expect.h"
#include "tests/gluon/exported.h"
#include "tests/gluon/exported_1.h"
#include "tests/gluon/exported_2.h"

using namespace sluice;
using namespace sluice::test;
using gluon::SymbolBlock;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string whole_again(std::string text) {
  const std::string key = "\"checksum\": \"";
  const std::size_t at = text.find(key);
  try {
    if (at != std::string::npos && text.size() >= at + key.size() + 8)
      text.replace(at + key.size(), 8, graph::checksum_text(graph::text_checksum(text)));
  } catch (const ValueError&) {  // the head is damaged
  }
  return text;
}

struct Files {
  TemporaryFolder folder;
  std::string graph, parameters;

  Files() {
    gluon::nn::Sequential net;
    net.add(
        gluon::nn::Conv2D(3, 3, {.padding = 1, .activation = "relu"}),
        gluon::nn::BatchNorm(),
        gluon::nn::MaxPool2D(2),
        gluon::nn::Dense(4));
    net.initialize(gluon::init::Xavier());
    net.export_to(folder / "net", {pattern_array({2, 1, 6, 6})}, {.notes = {{"classes", "a\nb"}}});
    graph = content(folder / "net.json");
    parameters = content(folder / "net.npz");
  }
};

std::string mutated(std::string text, std::mt19937& draw) {
  const std::size_t at = draw() % text.size();
  switch (draw() % 6) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << draw() % 8));
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      text.erase(at, 1 + draw() % 30);
      break;
    case 3:
      text.insert(at, text.substr(draw() % text.size(), draw() % 80));
      break;
    default: {  // one number for another
      const std::size_t begin = text.find_first_of("0123456789", at);
      if (begin == std::string::npos)
        break;
      const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
      const std::string other[] = {"0", "1", "2", "3", "-1", "12345678901234567890", "17", "\"2\"", "null", "true"};
      text.replace(begin, end - begin, other[draw() % std::size(other)]);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("damaged files of a network give one that works, or a typed error that names the file", "[gluon][export]") {
  const Files files;
  const NDArray x = pattern_array({2, 1, 6, 6});
  std::mt19937 draw(11);
  int worked = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const bool in_parameters = draw() % 5 == 0;
    std::string graph = files.graph, parameters = files.parameters;
    if (in_parameters)
      parameters = mutated(parameters, draw);
    else
      graph = mutated(graph, draw);
    if (in_parameters && draw() % 2 == 0) {  // as if it had been exported so
      const std::size_t at = graph.find("\"parameter_checksum\": \"") + 23;
      graph.replace(at, 8, graph::checksum_text(graph::checksum(parameters)));
      graph = whole_again(graph);
    } else if (draw() % 4 != 0) {
      graph = whole_again(graph);
    }
    put(files.folder / "net.json", graph);
    put(files.folder / "net.npz", parameters);
    try {
      const SymbolBlock net = SymbolBlock::imports(files.folder / "net.json");
      try {
        for (const NDArray& output : net.call(Arrays(net.inputs().size(), x)))
          output.wait_to_read();
        ++worked;
      } catch (const Error&) {  // of other shapes than x, say
        ++refused;
      }
    } catch (const Error& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find((files.folder / "net.").string()) != std::string::npos);
      ++refused;
    }
  }
  CAPTURE(worked, refused);
  CHECK(worked >= 20);
  CHECK(refused >= 1000);
}

TEST_CASE("files that are missing or do not belong together are refused", "[gluon][export]") {
  const Files files, others;
  const auto error = [&](const std::filesystem::path& graph, const std::filesystem::path& parameters) {
    CHECK_THROWS_AS(SymbolBlock::imports(graph, {}, parameters), FileError);
    return text_of_error([&] { (void)SymbolBlock::imports(graph, {}, parameters); });
  };
  CHECK(error(files.folder / "none.json", {}).find("none.json: cannot be read") != std::string::npos);
  CHECK(error(files.folder.path(), {}).find("cannot be read") != std::string::npos);
  CHECK(error(files.folder / "net.json", files.folder / "none.npz").find("none.npz") != std::string::npos);
  CHECK(error(files.folder / "net.json", others.folder / "net.npz").find("or not the file that") != std::string::npos);
  CHECK(error(files.folder / "net.npz", {}).find("no graph file") != std::string::npos);
  CHECK_THROWS_AS(SymbolBlock::imports(files.folder / "net.json", {"x"}), ValueError);
#ifdef SLUICE_CUDA
  using NoDevice = DeviceError;
#else
  using NoDevice = UnsupportedError;  // no operator has a kernel there, which is seen first
#endif
  CHECK_THROWS_AS(SymbolBlock::imports(files.folder / "net.json", {}, {}, gpu(num_gpus())), NoDevice);
}

namespace {

std::string bytes_of_digits(const char* digits) {
  std::string bytes;
  for (; *digits != '\0'; digits += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits, 2), nullptr, 16));
  return bytes;
}

}  // namespace

TEST_CASE("a network that version 1 exported stays readable, and gives what it gave", "[gluon][export]") {
  const TemporaryFolder folder;
  put(folder / "net.json", exported_1::k_graph);
  put(folder / "net.npz", bytes_of_digits(exported_1::k_parameters));
  const SymbolBlock net = SymbolBlock::imports(folder / "net.json", {"image", "shift"});
  CHECK(net.notes().at("classes") == "left right");
  CHECK(net.inputs()[0].batch);
  std::vector<float> scores{0.12558946f, 0.723702013f, 0.150708482f, 0.0751928836f, 0.711473107f, 0.213333979f};
  std::vector<float> shifted{-1.5f, 1.25f, -4.19999981f, -0.75f};
  const auto check = [&](std::int64_t n) {
    const Arrays outputs = net({pattern_array({n, 1, 4, 4}, 7), pattern_array({n, 2}, 9)});
    REQUIRE(outputs.size() == 2);
    check_near(values(outputs[0]), scores);
    check_near(values(outputs[1]), shifted);
  };
  check(2);
  scores.insert(scores.end(), {0.131854564f, 0.58076781f, 0.287377596f});
  shifted.insert(shifted.end(), {1.5f, -3.45000005f});
  check(3);
}

TEST_CASE("a network with loops that version 2 exported stays readable, and gives what it gave", "[gluon][export]") {
  const TemporaryFolder folder;
  put(folder / "net.json", exported_2::k_graph);
  put(folder / "net.npz", bytes_of_digits(exported_2::k_parameters));
  const SymbolBlock net = SymbolBlock::imports(folder / "net.json", {"steps"});
  CHECK(net.notes().at("classes") == "left right");
  CHECK(net.inputs()[0].shape == Shape{40, 2, 3});
  const NDArray given = pattern_array({40, 2, 3}, 7);
  check_near(values(net(given)), {-0.671982467f, -0.436494797f, -0.620746732f, -0.403440744f});
  // It is a loop, not its turns, and a branch: another is taken for what has the other sign.
  CHECK_THAT(exported_2::k_graph, contains("\"op\": \"foreach\"") && contains("\"op\": \"cond\""));
  CHECK(std::string(exported_2::k_graph).find("\"version\": 2") != std::string::npos);
  std::vector<float> turned = values(net(-given));
  CHECK(turned != values(net(given)));
}

TEST_CASE("an export that fails leaves the one that was there", "[gluon][export]") {
  const Files files;
  gluon::nn::Sequential net;
  net.add(gluon::nn::Dense(2));
  net.initialize();
  const Arrays inputs{zeros({2, 3})};
  net(inputs[0]);
  // No file may have more than 64 KiB: the arrays fit, the graph with its notes does not.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{.rlim_cur = 1 << 16, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_AS(
      net.export_to(files.folder / "net", inputs, {.notes = {{"long", std::string(1 << 18, 'n')}}}), FileError);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  CHECK(content(files.folder / "net.npz") == files.parameters);
  CHECK(SymbolBlock::imports(files.folder / "net.json").notes().at("classes") == "a\nb");
}

TEST_CASE("parameters without a name, or with an empty part of one, are refused", "[gluon][export]") {
  const Files files;
  for (const std::string name : {".weight", "0.", ".", "0..weight"}) {
    CAPTURE(name);
    std::string text = files.graph;
    const std::string key = "\"0.weight\"";
    const std::size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    text.replace(at, key.size(), '"' + name + '"');
    put(files.folder / "net.json", whole_again(text));
    CHECK_THROWS_AS(SymbolBlock::imports(files.folder / "net.json"), FileError);
  }
}

TEST_CASE("a network with NaN among its numbers is exported for any batch", "[gluon][export]") {
  const TemporaryFolder folder;
  class WithNaN : public gluon::Block {
   public:
    NDArray forward(const NDArray& x) const override { return where(x > 0, x, NAN); }
  };
  const WithNaN net;
  net.export_to(folder / "net", {zeros({2, 3})});
  const NDArray made = SymbolBlock::imports(folder / "net.json")(ones({5, 3}));
  CHECK(made.to_vector<float>() == std::vector<float>(15, 1));
}
