// Errors of common mistakes name what is wrong, where, and what to do.
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/model_zoo/torchvision.h>
#include <sluice/ndarray/detail/zip.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

template <class F>
std::string complaint(F&& f) {
  try {
    f();
    Engine::current().wait_all();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string at_line(int line) {
  return "test_cures.cpp:" + std::to_string(line);
}

void put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Looks at a value, as no trace can.
struct Looking : gluon::Block {
  NDArray forward(const NDArray& x) const override { return mean(x).item<float>() > 0 ? x : -x; }
};

struct WrongGradient : autograd::Function {
  std::vector<NDArray> forward(std::span<const NDArray> in, autograd::Kept&) const override { return {in[0] * in[1]}; }
  std::vector<NDArray> backward(std::span<const NDArray> heads, const autograd::Kept&) const override {
    return {heads[0], zeros({7})};
  }
};

// Catch's matchers keep what they are made of by reference; this says the same in several places.
void check_has(const std::string& told, const std::vector<std::string>& parts) {
  INFO(told);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(told.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("Writing in place while recording names the line and the way out", "[gluon][messages]") {
  NDArray a = ones({3});
  a.attach_grad();
  const autograd::RecordScope record;
  NDArray b = a * 2;
  const NDArray used = b * b;
  const std::string told = complaint([&] { b += used; });
  CHECK_THAT(told, contains("b = b + 1") && contains(at_line(__LINE__ - 1)));
  const std::string of_variable = complaint([&] { a += used; });
  CHECK_THAT(of_variable, contains("PauseScope") && contains(at_line(__LINE__ - 1)));
  CHECK_NOTHROW(b = b + 1);
}

TEST_CASE("Looking at a value while a trace records says what traces", "[gluon][messages]") {
  Looking net;
  net.hybridize();
  const std::vector<std::string> cure{"hybridize()", "export_to()", "while_loop()", "where()"};
  check_has(complaint([&] { net(ones({2})); }), cure);
  const TemporaryFolder folder;
  check_has(complaint([&] { net.export_to(folder / "net", {ones({2})}); }), cure);
}

TEST_CASE("A trainer whose layer was replaced says to make it anew", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Dense(4, {.in_units = 3}), nn::Dense(2, {.in_units = 4}));
  net.initialize();
  Trainer trainer(net.collect_params(), SGD());
  net.replace("1", nn::Dense(2, {.in_units = 4}));
  net.initialize();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = net(ones({2, 3}));
  }
  y.backward();
  CHECK_THAT(complaint([&] { trainer.step(2); }), contains("'1.weight'") && contains("make the trainer anew"));
}

TEST_CASE("A step that trains nothing says so, where it was taken", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Dense(2, {.in_units = 3}));
  net.initialize();
  for (const auto& [name, parameter] : net.collect_params()) {
    Parameter frozen = parameter;
    frozen.set_grad_req(GradReq::null);
  }
  Trainer trainer(net.collect_params(), SGD());
  const L2Loss loss;
  gluon::TrainStep step(net, loss, trainer);
  const std::string told = complaint([&] { step(ones({2, 3}), zeros({2, 2})); });
  CHECK_THAT(told, contains("nothing is trained") && contains(at_line(__LINE__ - 1)) && !contains("train_step.cpp"));
}

TEST_CASE("A block that was moved from names its type", "[gluon][messages]") {
  nn::Dense net(2);
  const nn::Dense taken = std::move(net);
  CHECK_THAT(complaint([&] { net.initialize(); }), contains("Dense") && contains("was moved from"));
  CHECK(taken.collect_params().size() == 2);
}

TEST_CASE("A gradient of a wrong shape names the input", "[gluon][messages]") {
  NDArray a = ones({3}), b = ones({3});
  a.attach_grad();
  b.attach_grad();
  NDArray r;
  {
    const autograd::RecordScope record;
    r = autograd::apply(std::make_shared<WrongGradient>(), std::vector<NDArray>{a, b})[0];
  }
  CHECK_THAT(complaint([&] { r.backward(); }), contains("of shape (7,) for input 1") && contains("(3,)"));
}

TEST_CASE("A file of another kind is named, with those that are read", "[gluon][formats]") {
  const TemporaryFolder folder;
  nn::Dense net(2, {.in_units = 3});
  const auto told = [&](const std::string& bytes) {
    put(folder / "x.npz", bytes);
    return complaint([&] { net.load_parameters(folder / "x.npz"); });
  };
  const auto names = [&](const std::string& bytes, const char* kind) {
    check_has(told(bytes), {kind, "x.npz: is ", ".npz, .npy, .safetensors and MXNet's .params"});
  };
  names("\x89PNG\r\n\x1a\n and more", "PNG");
  names("\xff\xd8\xff\xe0 and more", "JPEG");
  names("{", "JSON");
  names("{\"nodes\": []}", "JSON");
  names("\x80\x02}q", "PyTorch");
  names(std::string("\x1f\x8b\x08", 3), "gzip");
  for (const std::string& bytes : {std::string(), std::string("P"), std::string("PK garbage"), std::string(9, '\0')})
    CHECK_THAT(told(bytes), contains("truncated, or not a zip archive"));
}

TEST_CASE("A real .pth says how PyTorch writes what can be read", "[gluon][formats]") {
  const TemporaryFolder folder;
  sluice::detail::ZipWriter zip(folder / "x.pth");
  const std::string pickle = "\x80\x02}q.";
  zip.add("x/data.pkl", {}, std::as_bytes(std::span(pickle)));
  zip.finish();
  const std::vector<std::string> cure{"pickle of PyTorch's", "safetensors.torch.save_file"};
  check_has(complaint([&] { load(folder / "x.pth"); }), cure);
  nn::Dense net(2, {.in_units = 3});
  check_has(complaint([&] { gluon::model_zoo::load_torchvision(net, folder / "x.pth"); }), cure);
}

TEST_CASE("Parameters of torchvision's names hint at load_torchvision", "[gluon][formats]") {
  const TemporaryFolder folder;
  std::map<std::string, NDArray> theirs;
  for (int i = 0; i < 40; ++i)
    theirs.emplace("layer" + std::to_string(i) + ".weight", ones({1}));
  nn::Dense net(2, {.in_units = 3});
  save(folder / "plain.npz", theirs);
  const std::string plain = complaint([&] { net.load_parameters(folder / "plain.npz"); });
  CHECK_THAT(plain, contains("(40 in all)") && !contains("torchvision") && !contains("layer30"));
  theirs.emplace("bn1.num_batches_tracked", ones({}));
  save(folder / "theirs.npz", theirs);
  CHECK_THAT(complaint([&] { net.load_parameters(folder / "theirs.npz"); }), contains("model_zoo::load_torchvision()"));
}

TEST_CASE("Weights for other classes name the call and the way", "[gluon][formats]") {
  const TemporaryFolder folder;
  save(folder / "w.npz", {{"fc.weight", ones({5, 3})}, {"fc.bias", ones({5})}});
  nn::Sequential net;
  net.add(nn::Dense(2, {.in_units = 3}));
  const std::string told = complaint([&] { gluon::model_zoo::load_torchvision(net, folder / "w.npz"); });
  CHECK_THAT(told, contains("(5, 3)") && contains("replace() it after loading") && contains(at_line(__LINE__ - 1)));
  CHECK_THAT(told, !contains("load_dict"));
}

TEST_CASE("Tables say what columns there are, and what a first line of names needs", "[gluon][data]") {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& text, gluon::data::CsvOptions options) {
    put(folder / "t.csv", text);
    return complaint([&] { gluon::data::CsvDataset(folder / "t.csv", std::move(options)); });
  };
  CHECK_THAT(told("a,b\n1,2\n", {}), contains("'a' is no number; ") && contains(".header = true"));
  CHECK_THAT(told("1,2\n3,x\n", {}), contains("'x' is no number") && !contains("header"));
  CHECK_THAT(told("a,b\n1,x\n", {.header = true}), contains("'x' is no number") && !contains("header"));
  CHECK_THAT(told("a,b,c\n1,2,3\n", {.header = true, .label = "C"}), contains("no column 'C'; there are a, b, c"));
  CHECK_THAT(told("1,2\n", {.label = "C"}), contains("there is no header line"));
  std::string many = "n0";
  for (int i = 1; i < 30; ++i)
    many += ",n" + std::to_string(i);
  CHECK_THAT(told(many + "\n", {.header = true, .label = "C"}), contains("n19, .. (30 in all)") && !contains("n20"));
}

TEST_CASE("A full disk is told in one way, of the file that was asked for", "[gluon][formats]") {
  const std::map<std::string, NDArray> arrays{{"x", ones({300000})}};
  const std::string reason = "cannot be written: No space left on device";
  CHECK_THAT(complaint([&] { save("/dev/full", arrays); }), contains("/dev/full: " + reason));
  const gluon::formats::NamedArrays named{{"x", arrays.at("x")}};
  CHECK_THAT(complaint([&] { gluon::formats::save_safetensors("/dev/full", named); }), contains(reason));
  CHECK_THAT(complaint([&] { gluon::formats::save_mxnet("/dev/full", named); }), contains(reason));
  CHECK_THAT(
      complaint([&] {
        gluon::data::recordio::RecordWriter records("/dev/full");
        records.write({});
        records.close();
      }),
      contains(reason));
  const TemporaryFolder folder;
  const std::string inner = complaint([&] {
    write_whole(folder / "a.json", [&](const std::filesystem::path& outer) {
      write_whole(outer, [&](const std::filesystem::path& draft) {
        throw FileError(message(draft.string(), ": cannot be written: whatever"));
      });
    });
  });
  CHECK(inner == message((folder / "a.json").string(), ": cannot be written: whatever"));
  const std::string other = complaint(
      [&] { write_whole(folder / "a", [](const std::filesystem::path&) { throw FileError("b: is another file"); }); });
  CHECK(other == "b: is another file");
  CHECK(std::filesystem::is_empty(folder.path()));
}
