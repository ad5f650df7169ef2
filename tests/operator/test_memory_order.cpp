// Arrays of four axes whose channels are neighbours: who makes them, who keeps them, and that results are the same.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/library/kept_choices.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::is_in_order;
using sluice::detail::order_of;
using sluice::detail::ordered_strides;

namespace {

constexpr MemoryOrder k_rows = MemoryOrder::row_major, k_last = MemoryOrder::channels_last;

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, -1, 1, dtype);
}

MemoryOrder order_of(const NDArray& array) {
  return sluice::detail::order_of(array.shape(), array.strides());
}

// The same values with channels as neighbours.
NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

struct WithAutotune {
  explicit WithAutotune(Autotune how) { set_autotune(how); }
  ~WithAutotune() {
    Engine::current().wait_all();
    set_autotune(Autotune::off);
  }
};

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("sluice-choices-" + std::to_string(::getpid()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Result and gradients of f on a device, heads and inputs in that order of memory.
std::vector<NDArray> results_on(
    Device device,
    bool last,
    const std::function<NDArray(const std::vector<NDArray>&)>& f,
    const std::vector<NDArray>& inputs) {
  std::vector<NDArray> variables;
  for (const NDArray& input : inputs) {
    const NDArray there = input.to(device);
    variables.push_back((last && input.ndim() == 4 ? channels_last(there) : there).detach());
    variables.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(variables);
  }
  const NDArray head = random_array(y.shape(), 9, -1, 1, y.dtype()).to(device);
  y.backward(last && head.ndim() == 4 ? channels_last(head) : head);
  std::vector<NDArray> results{y};
  for (const NDArray& variable : variables)
    results.push_back(variable.grad());
  return results;
}

}  // namespace

TEST_CASE("An order of memory is told by strides, whatever those of single elements say") {
  CHECK(ordered_strides({2, 3, 4, 5}, k_rows) == Shape{60, 20, 5, 1});
  CHECK(ordered_strides({2, 3, 4, 5}, k_last) == Shape{60, 1, 15, 3});
  CHECK(ordered_strides({2, 1, 4, 5}, k_last) == Shape{20, 20, 5, 1});
  CHECK(ordered_strides({2, 3, 1, 1}, k_last) == Shape{3, 1, 1, 1});
  CHECK(ordered_strides({2, 3, 4}, k_last) == Shape{12, 4, 1});
  CHECK(order_of({2, 3, 4, 5}, {60, 1, 15, 3}) == k_last);
  CHECK(order_of({2, 3, 4, 5}, {60, 20, 5, 1}) == k_rows);
  CHECK(order_of({1, 3, 4, 5}, {7, 1, 15, 3}) == k_last);    // one image: its stride says nothing
  CHECK(order_of({2, 3, 4, 5}, {120, 1, 15, 3}) == k_rows);  // with gaps
  CHECK(order_of({2, 3, 4, 5}, {0, 1, 15, 3}) == k_rows);    // stretched
  CHECK(order_of({2, 3, 4}, {12, 1, 3}) == k_rows);
  CHECK(order_of({0, 3, 4, 5}, {60, 1, 15, 3}) == k_rows);
  CHECK(is_in_order({2, 3, 4, 5}, {60, 1, 15, 3}, k_last));
  CHECK(!is_in_order({2, 3, 4, 5}, {60, 1, 15, 3}, k_rows));
  CHECK(is_in_order({2, 3, 1, 1}, {3, 1, 9, 9}, k_rows));
  CHECK(is_in_order({2, 3, 1, 1}, {3, 1, 9, 9}, k_last));
}

TEST_CASE("On a CPU results lie row by row, however operands lie") {
  const NDArray x = channels_last(draw({2, 3, 4, 5}, 1, float32));
  REQUIRE(order_of(x) == k_last);
  CHECK((x + 1).is_contiguous());
  CHECK(max_pool2d(x).is_contiguous());
  CHECK(differences(max_pool2d(x), max_pool2d(x.copy()), {0, 0}) == "");
}

TEST_CASE("What was chosen is found again, by another process too, and bad lines cost nothing") {
  const Folder folder;
  const auto file = folder.path / "deeper" / "choices";
  {
    sluice::detail::KeptChoices first(file);
    CHECK(!first.find("a").has_value());
    first.keep("a", "1");
    first.keep("b", "x y");
    first.keep("a", "2");
    CHECK(first.find("a") == "2");
  }
  std::ofstream(file, std::ios::app) << "no tab\n\tno key\nno choice\t\nhalf\twritten";
  sluice::detail::KeptChoices second(file);
  CHECK(second.find("a") == "2");
  CHECK(second.find("b") == "x y");
  CHECK(!second.find("no choice").has_value());
  CHECK(!second.find("half").has_value());
  sluice::detail::KeptChoices nowhere(folder.path / "deeper" / "choices" / "file is no folder" / "c");
  nowhere.keep("a", "3");
  CHECK(nowhere.find("a") == "3");
  sluice::detail::KeptChoices in_memory{std::filesystem::path()};
  in_memory.keep("a", "4");
  CHECK(in_memory.find("a") == "4");
}

TEST_CASE("A choice that is kept after half a line is found again, and half a line is none") {
  const Folder folder;
  const auto file = folder.path / "choices";
  std::filesystem::create_directories(folder.path);
  for (const char* half : {"half", "half\t", "half\twritt"}) {
    std::ofstream(file) << "a\t1\n" << half;
    sluice::detail::KeptChoices(file).keep("b", "2");
    sluice::detail::KeptChoices(file).keep("c", "3");
    sluice::detail::KeptChoices again(file);
    CHECK(again.find("a") == "1");
    CHECK(again.find("b") == "2");
    CHECK(again.find("c") == "3");
    CHECK(!again.find("half").has_value());
  }
}

TEST_CASE("Where choices are kept follows the environment") {
  using sluice::detail::choices_file;
  CHECK(choices_file("/p", "/x", "/h") == "/p/choices-1.txt");
  CHECK(choices_file("", "/x", "/h") == "");
  CHECK(choices_file(nullptr, "/x", "/h") == "/x/sluice/choices-1.txt");
  CHECK(choices_file(nullptr, "", "/h") == "/h/.cache/sluice/choices-1.txt");
  CHECK(choices_file(nullptr, nullptr, nullptr) == "");
}

TEST_CASE("On a GPU pooling and what goes element by element keep channels as neighbours", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = channels_last(draw({2, 8, 6, 6}, 1, float32).to(gpu()));
  const NDArray row = draw({2, 8, 6, 6}, 2, float32).to(gpu());
  for (const NDArray& y : {x + 1, relu(x), x + x, x + row, row + x, max_pool2d(x), avg_pool2d(x)})
    CHECK(order_of(y) == k_last);
  CHECK((row + 1).is_contiguous());
  CHECK(sum(x, {0}).is_contiguous());
  NDArray kept = zeros({2, 8, 6, 6}, {.device = gpu()});
  kept += x;  // in place: as it lies
  CHECK(kept.is_contiguous());
  CHECK(differences(kept.to(cpu()), x.to(cpu()), {0, 0}) == "");
  CHECK(differences(x.reshape({2, -1}).to(cpu()), x.to(cpu()).reshape({2, -1}), {0, 0}) == "");
}

TEST_CASE("A convolution writes to memory that lies as its results do, and copies to any other", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = draw({2, 8, 6, 6}, 1, bfloat16).to(gpu()), w = draw({8, 8, 3, 3}, 2, bfloat16).to(gpu());
  const NDArray expected = convolution(x, w, {});
  REQUIRE(order_of(expected) == k_last);
  const auto tasks_into = [&](const NDArray& result) {
    Engine::current().wait_all();
    const std::uint64_t before = Engine::current().counters().pushed;
    const std::vector<NDArray> inputs{x, w}, into{result};
    invoke(sluice::detail::convolution_op, inputs, Attributes::of(sluice::detail::ConvolutionAttributes{}), {}, into);
    const std::uint64_t pushed = Engine::current().counters().pushed - before;
    CHECK(result.to_vector<float>() == expected.to_vector<float>());
    return pushed;
  };
  const std::uint64_t alone = tasks_into(channels_last(zeros({2, 8, 4, 4}, {.dtype = bfloat16, .device = gpu()})));
  CHECK(tasks_into(zeros({2, 8, 4, 4}, {.dtype = bfloat16, .device = gpu()})) == alone + 1);
  const NDArray wide = channels_last(zeros({2, 16, 4, 4}, {.dtype = bfloat16, .device = gpu()}));
  CHECK(tasks_into(wide.slice(1, 0, 8)) == alone + 1);
}

TEST_CASE("Pooling of channels as neighbours is that of rows, bit for bit, gradients too", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    for (const std::int64_t channels : {1, 3, 8, 12, 16}) {
      for (const PoolOptions& o : pool_options()) {
        CAPTURE(name_of(dtype), channels, to_string(o.kernel));
        const NDArray x = random_array({3, channels, 9, 8}, 1, 0, 3, int32).astype(dtype);
        for (const bool largest : {true, false}) {
          const auto f = [&](const auto& v) { return largest ? max_pool2d(v[0], o) : avg_pool2d(v[0], o); };
          const auto rows = results_on(gpu(), false, f, {x}), last = results_on(gpu(), true, f, {x});
          CHECK(differences(last[0].to(cpu()), rows[0].to(cpu()), {0, 0}) == "");
          CHECK(differences(last[1].to(cpu()), rows[1].to(cpu()), {0, 0}) == "");
        }
      }
    }
  }
}

TEST_CASE("Tensor cores take and give channels as neighbours; values and gradients are the CPU's", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  struct Case {
    Shape x, weight;
    ConvolutionOptions options = {};
  };
  const std::vector<Case> cases = {
      {{2, 16, 9, 8}, {24, 16, 3, 3}, {.pad = {1, 1}}},
      {{4, 8, 7, 7}, {8, 8, 1, 1}},
      {{2, 1, 14, 14}, {16, 1, 3, 3}},
      {{2, 3, 14, 14}, {16, 3, 5, 5}, {.stride = {2, 2}, .pad = {2, 2}}},
      {{2, 16, 6, 6}, {16, 8, 3, 3}, {.groups = 2}},
      {{2, 5, 6, 6}, {7, 5, 3, 3}, {.pad = {1, 1}}},
      {{0, 16, 6, 6}, {16, 16, 3, 3}, {.pad = {1, 1}}}};
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const Case& c : cases) {
      for (const char* activation : {"", "relu"}) {
        CAPTURE(name_of(dtype), to_string(c.x), to_string(c.weight), activation);
        // Multiples of 1/8 whose sums no type rounds before the end, so that relu's kinks are the same.
        const auto eighths = [](const Shape& shape, std::uint64_t seed, DType type) {
          return (random_array(shape, seed, -4, 5, int32).astype(float32) * 0.125).astype(type);
        };
        ConvolutionOptions options = c.options;
        options.activation = activation;
        const std::vector<NDArray> inputs{
            eighths(c.x, 1, dtype), eighths(c.weight, 2, dtype), eighths({c.weight[0]}, 3, dtype)};
        const auto f = [&](const auto& v) { return convolution(v[0], v[1], v[2], options); };
        const auto want = results_on(cpu(), false, f, inputs);
        const Tolerance t = sum_tolerance(dtype);
        const Tolerance loose{std::max(4 * t.relative, 2e-3), std::max(8 * t.absolute, 1e-2)};
        for (const bool last : {false, true}) {
          const auto got = results_on(gpu(), last, f, inputs);
          for (std::size_t i = 0; i < want.size(); ++i) {
            CAPTURE(last, i);
            CHECK(differences(got[i].to(cpu()), want[i], loose) == "");
          }
        }
      }
    }
  }
  const NDArray x = draw({2, 16, 6, 6}, 1, float16).to(gpu()), w = draw({16, 16, 3, 3}, 2, float16).to(gpu());
  CHECK(order_of(convolution(x, w, {})) == k_last);
  CHECK(order_of(relu(convolution(x, w, {}))) == k_last);
  NDArray placed = zeros({2, 16, 4, 4}, {.dtype = float16, .device = gpu()});
  invoke(
      *find_operator("convolution"),
      std::vector<NDArray>{x, w},
      parse_attributes(*find_operator("convolution"), ""),
      SourceLocation::current(),
      std::span(&placed, 1));
  CHECK(placed.is_contiguous());
  CHECK(differences(placed.to(cpu()), convolution(x, w, {}).to(cpu()), {0, 0}) == "");
}

TEST_CASE("A NaN passes through a convolution's relu on every device", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tf32;
  for (const DType dtype : {float32, float16}) {
    for (const std::int64_t channels : {1, 16}) {
      CAPTURE(name_of(dtype), channels);
      NDArray x = ones({2, channels, 8, 8}).astype(dtype);
      x.slice(0, 0, 1).assign(NAN);
      const NDArray w = full({16, channels, 3, 3}, 0.125).astype(dtype), b = zeros({16}).astype(dtype);
      for (const Device device : {cpu(), gpu()}) {
        const NDArray y =
            convolution(x.to(device), w.to(device), b.to(device), {.activation = "relu"}).astype(float32).to(cpu());
        CHECK(std::isnan(sum(y.slice(0, 0, 1)).item<float>()));
        CHECK(sum(isnan(y)).item<std::int64_t>() == y.size() / 2);
      }
    }
  }
}

TEST_CASE("A convolution chosen by trial is the predicted one's equal, and the choice is kept", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const Folder folder;
  REQUIRE(setenv("SLUICE_PLAN_CACHE", folder.path.c_str(), 1) == 0);  // before the first choice of this process
  const NDArray x = draw({4, 16, 12, 12}, 1, float32), w = draw({32, 16, 3, 3}, 2, float32), b = draw({32}, 3, float32);
  const auto f = [&](const auto& v) { return convolution(v[0], v[1], v[2], {.pad = {1, 1}, .activation = "relu"}); };
  const auto want = results_on(gpu(), false, f, {x, w, b});
  for (const Autotune how : {Autotune::first_use, Autotune::exhaustive}) {
    const WithAutotune tuned(how);
    const auto got = results_on(gpu(), false, f, {x, w, b}), again = results_on(gpu(), false, f, {x, w, b});
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(differences(got[i].to(cpu()), want[i].to(cpu()), {1e-4, 1e-3}) == "");
      CHECK(differences(again[i].to(cpu()), got[i].to(cpu()), {0, 0}) == "");
    }
    const NDArray a = draw({64, 96}, 4, float32).to(gpu());
    CHECK(differences(matmul(a, a.T()).to(cpu()), matmul(a.to(cpu()), a.to(cpu()).T()), {1e-4, 1e-4}) == "");
  }
  Engine::current().wait_all();
  std::ifstream file(folder.path / "choices-1.txt");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    CHECK(line.find('\t') != std::string::npos);
  CHECK(lines >= 3);
}

// The sums are of one sign and of thousands of terms: added up in a half type they would be off by percents.
TEST_CASE("Convolutions of half types add up in float32 on a GPU", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  struct Problem {
    Shape x, weight;
    std::int64_t pad, stride = 1;
  };
  const Problem problems[] = {
      {{4, 3, 224, 224}, {64, 3, 7, 7}, 3, 2},
      {{5, 4, 65, 63}, {32, 4, 5, 5}, 2, 2},
      {{4, 256, 14, 14}, {64, 256, 3, 3}, 1},
      {{16, 24, 17, 17}, {40, 24, 1, 1}, 0},
      {{4, 3, 32, 32}, {16, 3, 7, 7}, 3}};
  for (const DType dtype : {float16, bfloat16}) {
    const double rounding = dtype == float16 ? 0x1p-11 : 0x1p-8;
    for (const Problem& p : problems) {
      CAPTURE(name_of(dtype), to_string(p.x), to_string(p.weight));
      const auto half = [&](const Shape& shape, std::uint64_t seed) {
        return random_array(shape, seed, 0.5, 1, dtype).astype(float64) * 0.0625;
      };
      const NDArray x = half(p.x, 1), w = half(p.weight, 2);
      const auto results = [&](DType type, Device device) {
        NDArray a = x.astype(type).to(device), b = w.astype(type).to(device);
        a.attach_grad(), b.attach_grad();
        NDArray y;
        {
          const autograd::RecordScope record;
          y = convolution(a, b, {}, {.stride = {p.stride, p.stride}, .pad = {p.pad, p.pad}});
        }
        y.backward(half(y.shape(), 3).astype(type).to(device));
        return std::vector<NDArray>{y, a.grad(), b.grad()};
      };
      const std::vector<NDArray> want = results(float64, cpu());
      for (const Autotune how : {Autotune::off, Autotune::exhaustive}) {
        const WithAutotune tuned(how);
        const std::vector<NDArray> got = results(dtype, gpu());
        for (std::size_t i = 0; i < want.size(); ++i)
          CHECK(differences(got[i].to(cpu()).astype(float64), want[i], {1.05 * rounding + 1e-5, 1e-6}) == "");
      }
    }
  }
}
