// Errors name the user's line also where no layer is called: operators, files, children, datasets.
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

template <class Call>
std::string text_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string at(int line) {
  return "test_lines.cpp:" + std::to_string(line);
}

/// How often a line of this file is named.
int lines_in(const std::string& text) {
  int found = 0;
  for (std::size_t i = text.find("test_lines.cpp:"); i != std::string::npos; i = text.find("test_lines.cpp:", i + 1))
    ++found;
  return found;
}

nn::Sequential dense_net(std::int64_t units = 4) {
  nn::Sequential net;
  net.add(nn::Dense(units, {.in_units = 6}));
  net.initialize();
  return net;
}

class Crooked : public gluon::Block {
 public:
  static constexpr int k_line = __LINE__ + 3;

 protected:
  NDArray forward(const NDArray& x) const override { return matmul(x, zeros({9, 9})); }
};

/// A dataset of ten numbers that cannot read one of them.
struct Broken {
  std::int64_t bad = 7;
  std::int64_t size() const { return 10; }
  ArraySpec data_spec() const { return {{1}, float32, cpu()}; }
  ArraySpec label_spec() const { return {{}, int32, cpu()}; }
  void read(std::span<const std::int64_t> indices, const TensorView&, const TensorView&) const {
    for (const std::int64_t i : indices) {
      if (i == bad)
        throw std::runtime_error("file " + std::to_string(i) + ".png is broken");
    }
  }
};

template <class Call>
void check_line(const char* what, int line, Call&& call) {
  INFO(what);
  const std::string text = text_of(call);
  CHECK_THAT(text, contains(what) && contains("\n  at ") && contains(at(line)));
  CHECK(lines_in(text) == 1);
}

}  // namespace

TEST_CASE("operators outside layers name the line where they stand, once", "[gluon][messages]") {
  const NDArray a = zeros({2, 3}), undefined;
  check_line("matmul: the summed axes differ", __LINE__, [&] { matmul(a, a); });
  check_line("reshape: ", __LINE__, [&] { a.reshape({4}); });
  check_line("add: shapes", __LINE__, [&] { a + zeros({4}); });
  check_line("add", __LINE__, [&] { NDArray(a.copy()) += zeros({4}); });
  check_line("concat: array 1", __LINE__, [&] { concat({a, zeros({2, 2})}, 0); });
  check_line("stack: array 1", __LINE__, [&] { stack({a, zeros({2, 2})}); });
  check_line("split: axis 1", __LINE__, [&] { split(a, 2, 1); });
  check_line("take: axis 5", __LINE__, [&] { take(a, zeros({1}, {.dtype = int32}), 5); });
  check_line("item: an array of shape (2, 3) has 6 elements", __LINE__, [&] { a.item<float>(); });
  check_line("sum: axis 2", __LINE__, [&] { sum(a, {2}); });
  check_line("argmax: axis 2", __LINE__, [&] { argmax(a, 2); });
  check_line("softmax: axis 2", __LINE__, [&] { softmax(a, 2); });
  check_line("argmax: the array is undefined", __LINE__, [&] { argmax(undefined); });
  check_line("operator[]: index 2 is out of bounds for axis 0 of shape (2, 3)", __LINE__, [&] { a[2]; });
  check_line("operator[]: index 0 of an array of no axes", __LINE__, [&] { a[0][0][0]; });
  check_line("operator[]: the array is undefined", __LINE__, [&] { undefined[0]; });
  check_line("array: a row has 1 values, the first one 2", __LINE__, [] { array({{1, 2}, {3}}); });
  check_line("transpose: axes", __LINE__, [&] { a.transpose({0}); });
  check_line("squeeze: axis 0", __LINE__, [&] { a.squeeze(0); });
  check_line("broadcast_to", __LINE__, [&] { a.broadcast_to({5}); });
  check_line("clip: low", __LINE__, [&] { clip(a, 2, 1); });
  check_line("where: ", __LINE__, [&] { where(undefined, a, a); });
  check_line("random::normal: mean", __LINE__, [&] { random::normal(0, -1, {2}); });
  check_line("dropout: 2", __LINE__, [&] { dropout(a, 2); });
  check_line("assign: ", __LINE__, [&] { a.assign(undefined); });
  check_line("assign: an array of shape (4,) does not broadcast", __LINE__, [&] { a.assign(zeros({4})); });
  NDArray whole = zeros({2}, {.dtype = int32});
  check_line("add: a float32 result cannot be written to an array of int32", __LINE__, [&] { whole += 1.5; });
  check_line("multiply: a float32 result", __LINE__, [&] { whole[0] *= 1.5; });
  check_line("attach_grad: an array of int32", __LINE__, [&] { whole.attach_grad(); });
  check_line("add_hook: an array", __LINE__, [&] { autograd::add_hook(a, [](const NDArray& dy) { return dy; }); });
  check_line("save: the array \"x\"", __LINE__, [&] { save("x.npz", {{"x", undefined}}); });
  check_line("there is no such file", __LINE__, [&] { load("none/of/those.npz"); });
  check_line("eye: rows", __LINE__, [&] { eye(-1); });
  gluon::metric::Accuracy right;
  check_line("(3,) have no axis 1; labels, here (2, 3), are given first", __LINE__, [&] { right.update(a, a[0]); });
  check_line("Accuracy: labels", __LINE__, [&] { right.update(zeros({5}), a); });
}

TEST_CASE("products with derivatives name the line where they stand, once", "[gluon][messages]") {
  const NDArray x = ones({2, 3}), v = ones({5});
  const auto twice = [](const NDArray& in) { return in * 2; };
  check_line("vjp: a direction", __LINE__, [&] { autograd::vjp(twice, x, v); });
  check_line("jvp: a direction", __LINE__, [&] { autograd::jvp(twice, x, v); });
  check_line("hvp: a direction", __LINE__, [&] { autograd::hvp(twice, x, v); });
  check_line("hessian: the function gives", __LINE__, [&] { autograd::hessian(twice, x); });
  const std::string text = text_of([&] { autograd::jacobian([](const NDArray&) { return ones({2}); }, x); });
  CHECK_THAT(text, contains("backward at ") && contains(at(__LINE__ - 1)));
}

TEST_CASE("an undefined array is missed by what the user wrote", "[gluon][messages]") {
  const NDArray undefined;
  check_line("sum: the array is undefined", __LINE__, [&] { sum(undefined); });
  check_line("mean: the array is undefined", __LINE__, [&] { mean(undefined); });
  check_line("argmax: the array is undefined", __LINE__, [&] { argmax(undefined, 0); });
  check_line("take: input 0 is an undefined NDArray", __LINE__, [&] { take(undefined, undefined); });
  check_line("concat: input 0 is an undefined NDArray", __LINE__, [&] { concat({undefined}); });
  check_line("split: input 0 is an undefined NDArray", __LINE__, [&] { split(undefined, 2); });
  check_line("softmax: the array is undefined", __LINE__, [&] { softmax(undefined); });
  check_line("item: the array is undefined", __LINE__, [&] { undefined.item<float>(); });
  check_line("to_vector: the array is undefined", __LINE__, [&] { undefined.to_vector<float>(); });
  const nn::Dense dense(2);
  const std::string text = text_of([&] { dense(undefined); }), line = at(__LINE__);
  CHECK_THAT(text, contains("Dense: was called with an undefined NDArray\n  in Dense, called at ") && contains(line));
}

TEST_CASE("a value that is read while a network is traced says what branches by values", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Lambda([](const NDArray& x) { return x.item<float>() > 0 ? x : -x; }));
  net.hybridize();
  const std::string text = text_of([&] { net(ones({1})); }), line = at(__LINE__), read = at(__LINE__ - 2);
  CHECK_THAT(text, contains("item: an array of shape (1,) has no memory") && contains(line) && contains(read));
  CHECK_THAT(text, contains("where(), cond() and while_loop() branch by values"));  // as programs call them
}

TEST_CASE("an operator in a block of the user's names its line and the call", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Flatten(), Crooked());
  const int line = __LINE__ + 1;
  const std::string text = text_of([&] { net(zeros({2, 5})); });
  CHECK_THAT(text, contains("matmul: ") && contains("\n  at ") && contains(at(Crooked::k_line)));
  CHECK_THAT(text, contains("in layer 1 (Crooked), called at ") && contains(at(line)));
  CHECK(lines_in(text) == 2);
}

TEST_CASE("backward says where an operator of the user's stood, not where its gradient does", "[gluon][messages]") {
  NDArray y;
  {
    autograd::RecordScope record;
    NDArray x = zeros({2});
    x.attach_grad();
    y = x * 2;
  }
  const std::string text = text_of([&] { y.backward(zeros({3})); });
  CHECK_THAT(text, contains("backward at ") && contains(at(__LINE__ - 1)) && !contains("../operator"));
}

TEST_CASE("files that do not fit name the user's line and what to do", "[gluon][messages]") {
  TemporaryFolder folder;
  const nn::Sequential net = dense_net();
  const std::string file = folder / "net.npz", none = folder / "none.npz";
  net.save_parameters(file);
  nn::Sequential wider = dense_net(5), empty;
  empty.add(nn::Dense(2));
  const int line = __LINE__ + 1;
  const std::string shape = text_of([&] { wider.load_parameters(file); });
  const std::string missing = text_of([&] { wider.load_parameters(none); });
  const std::string unsaved = text_of([&] { empty.save_parameters(none); });
  CHECK_THAT(shape, contains("'0.weight' has shape (4, 6), the network's has (5, 6); make the layer"));
  CHECK_THAT(shape, contains("in load_parameters of " + file + ", called at ") && contains(at(line)));
  CHECK_THAT(missing, contains("none.npz") && contains(at(line + 1)));
  CHECK_THAT(unsaved, contains("'0.weight' has no value yet; initialize()") && contains(at(line + 2)));

  gluon::Trainer adam(net.collect_params(), gluon::optimizer::Adam());
  gluon::Trainer sgd(net.collect_params(), gluon::optimizer::SGD());
  adam.save_states(folder / "adam.npz");
  const int loads = __LINE__ + 1;
  const std::string other = text_of([&] { sgd.load_states(folder / "adam.npz"); });
  const std::string nowhere = text_of([&] { sgd.save_states(folder / "no" / "where.npz"); });
  CHECK_THAT(other, contains("those of Adam, this optimizer is SGD; make the trainer with Adam"));
  CHECK_THAT(other, contains("adam.npz, called at ") && contains(at(loads)));
  CHECK_THAT(nowhere, contains("Trainer::save_states of ") && contains(at(loads + 1)));
}

TEST_CASE("children that are not there name the user's line", "[gluon][messages]") {
  nn::Sequential net = dense_net();
  check_line("the Sequential has no child 5; it has 1", __LINE__, [&] { net[5]; });
  check_line("no child 'nose'; there are 0", __LINE__, [&] { net.child_named("nose"); });
  check_line("no child 'nose'", __LINE__, [&] { net.replace("nose", nn::Dense(2)); });
  check_line("no parameter 'nose'", __LINE__, [&] { net.own_parameter("nose"); });
  const int line = __LINE__ + 1;
  const std::string null = text_of([&] { net.replace("0", std::shared_ptr<gluon::Block>()); });
  CHECK_THAT(null, contains("child '0' is null") && contains("in replace, called at ") && contains(at(line)));
}

TEST_CASE("a dataset's error names the samples and the line of the loader", "[gluon][messages]") {
  const int line = __LINE__ + 1;
  gluon::data::DataLoader loader(Broken{}, {.batch_size = 2}), shuffled(Broken{}, {.batch_size = 10, .shuffle = true});
  const auto first_error = [](gluon::data::DataLoader& from) {
    return text_of([&] {
      for (auto [x, y] : from)
        x.wait_to_read();
    });
  };
  const std::string text = first_error(loader), other = first_error(shuffled);
  CHECK_THAT(text, contains("file 7.png is broken") && contains("in batch 3, samples 6 to 7"));
  CHECK_THAT(text, contains("pushed at ") && contains(at(line)) && !contains("loader.cpp"));
  CHECK_THAT(other, contains("in batch 0, samples ") && contains(" and 2 more"));
  check_line("batch_size is 0", __LINE__, [&] { gluon::data::DataLoader(Broken{}, {.batch_size = 0}); });
}

TEST_CASE("pixels that were not cast are told how to be", "[gluon][messages]") {
  const NDArray pixels = zeros({2, 6}, {.dtype = uint8}), images = zeros({2, 1, 6, 6}, {.dtype = uint8});
  const nn::Sequential net = dense_net();
  CHECK_THAT(
      text_of([&] { net(pixels); }),
      contains("Dense: x is uint8, weight is float32; cast x: ToTensor() or x.astype(float32)"));
  nn::Sequential conv;
  conv.add(nn::Conv2D(2, 3, {.in_channels = 1}));
  conv.initialize();
  CHECK_THAT(
      text_of([&] { conv(images); }),
      contains("convolution: x is uint8, weight is float32; cast x: ToTensor() or x.astype(float32)"));
}

TEST_CASE("one image, and labels of too few, are told what is wanted", "[gluon][messages]") {
  nn::Sequential conv;
  conv.add(nn::Conv2D(2, 3));
  conv.initialize();
  CHECK_THAT(text_of([&] { conv(zeros({1, 6, 6})); }), contains("expand_dims(0) makes one image a batch"));
  CHECK_THAT(text_of([&] { conv(zeros({6, 6})); }), contains("not (6, 6)") && !contains("expand_dims"));
  CHECK_THAT(
      text_of([&] {
        gluon::loss::L2Loss()(zeros({4, 10}), zeros({3}));
      }),
      contains("labels of shape (3,) do not fit predictions of shape (4, 10); give labels of shape (4, 10)"));
}

TEST_CASE("limits and parameters are named as the user knows them", "[gluon][messages]") {
  CHECK_THAT(
      text_of([] { gluon::optimizer::SGD({.learning_rate = -1}); }),
      contains("learning_rate is -1, it must be finite and at least 0") && !contains("e+308"));
  CHECK_THAT(
      text_of([] { gluon::optimizer::Adam({.beta1 = 1}); }),
      contains("beta1 is 1, it must be at least 0 and less than 1"));
  nn::Sequential net;
  net.add(nn::Dense(2, {.in_units = 2}));
  const gluon::ParameterDict all = net.collect_params();
  CHECK_THAT(text_of([&] { all["0.weight"].data(); }), contains("data(): parameter '0.weight' is not initialised"));
  CHECK_THAT(text_of([&] { all["0.weight"].set_data(zeros({3})); }), contains("parameter '0.weight' has shape"));
}

TEST_CASE("lines are told apart by the text of their file, not by where it stands", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  char file[] = "a.cpp";
  const auto call = [&] { return text_of([&] { net(zeros({2, 5}), SourceLocation{file, 7}); }); };
  CHECK_THAT(call(), contains("called at a.cpp:7"));
  file[0] = 'b';
  CHECK_THAT(call(), contains("called at b.cpp:7") && !contains("a.cpp"));
}
