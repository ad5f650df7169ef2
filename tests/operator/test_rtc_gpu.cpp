// Kernels of users on a GPU, in order with other tasks. On the simulated GPU they are those of test_rtc_sim.cpp.
#include <cstdint>
#include <limits>
#include <memory>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/operator/rtc_sources.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using rtc::CudaKernel;
using rtc::CudaModule;

namespace {

constexpr Device k_gpu = gpu(0);
constexpr const char* k_add = "const float* x, const float* y, float* z, int n";

CudaKernel add_kernel() {
  return CudaModule(k_rtc_source).kernel("add", k_add);
}

NDArray counting(std::int64_t n) {
  return arange(0, static_cast<double>(n), 1, {.device = k_gpu});
}

/// x + y, and the gradient of that.
struct Added : autograd::Function {
  CudaKernel kernel = add_kernel();
  std::vector<NDArray> forward(std::span<const NDArray> inputs, autograd::Kept&) const override {
    const NDArray sum = empty_like(inputs[0]);
    kernel.launch({inputs[0], inputs[1], sum, static_cast<int>(sum.size())}, {.grid = {1}, .block = {64}});
    return {sum};
  }
  std::vector<NDArray> backward(std::span<const NDArray> grads, const autograd::Kept&) const override {
    return {grads[0], grads[0]};
  }
};

}  // namespace

TEST_CASE("A kernel of a module reads and writes arrays, between other tasks on them", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaKernel add = add_kernel();
  CHECK(add.name() == "add");
  for (const int n : {0, 1, 127, 128, 129, 5000}) {
    NDArray x = counting(n), y = full({n}, 2.0F, {.device = k_gpu}), z = empty({n}, {.device = k_gpu});
    x.assign(x * 2.0F);
    for (int turn = 0; turn < 3; ++turn) {
      add.launch({x, y, z, n}, {.grid = {static_cast<unsigned>(n + 127) / 128}, .block = {128}});
      x.assign(z + 1.0F);
    }
    std::vector<float> expected(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = 2 * static_cast<float>(i) + 9;
    CHECK(x.to_vector<float>() == expected);
  }
}

TEST_CASE("Numbers of every kind reach a kernel as the signature says", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaModule module(k_rtc_source);
  const CudaKernel scale = module.kernel("scale", "double* x, double by, long long n");
  const NDArray x = full({300}, 3.0, {.dtype = float64, .device = k_gpu});
  scale.launch({x, 0.1, std::int64_t{300}}, {.grid = {2}, .block = {32}});
  CHECK(x.to_vector<double>() == std::vector<double>(300, 3.0 * 0.1));
  scale.launch({x, 2, 1}, {});  // an integer is a number too
  CHECK(x.to_vector<double>()[0] == 3.0 * 0.1 * 2);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  scale.launch({x, inf, 2}, {});
  CHECK(x.to_vector<double>()[1] == inf);
  scale.launch({x, nan, 1}, {});
  CHECK(std::isnan(x.to_vector<double>()[0]));
  const CudaKernel mark = module.kernel("mark", "unsigned char*, bool, signed char");
  const NDArray marks = empty({6, 8}, {.dtype = uint8, .device = k_gpu});
  mark.launch({marks, true, -1}, {.grid = {2, 3}, .block = {4, 2}});
  CHECK(marks[5].to_vector<std::int64_t>() == std::vector<std::int64_t>{39, 40, 41, 42, 43, 44, 45, 46});
  mark.launch({marks, false, 100}, {.grid = {2, 3}, .block = {4, 2}});
  CHECK(sum(marks.astype(int32)).item<std::int64_t>() == 0);
}

TEST_CASE("A kernel reads views where they lie, and copies of those with gaps; what it writes has none", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaKernel add = add_kernel();
  const NDArray base = counting(24).reshape({4, 6}), z = zeros({4, 6}, {.device = k_gpu});
  add.launch({base[1], base[2], z[3], 6}, {.block = {32}});
  CHECK(z.to_vector<float>() == std::vector<float>{0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,
                                                   0, 0, 0, 0, 0, 0, 18, 20, 22, 24, 26, 28});
  const NDArray column = base.T()[2], one = full({1}, 5.0F, {.device = k_gpu}).broadcast_to({4}),
                out = empty({4}, {.device = k_gpu});
  add.launch({column, one, out, 4}, {.block = {4}});
  CHECK(out.to_vector<float>() == std::vector<float>{7, 13, 19, 25});
  add.launch({base[0].slice(0, -1, INT64_MIN, -1), base[0], z[0], 6}, {.block = {6}});
  CHECK(z[0].to_vector<float>() == std::vector<float>{5, 5, 5, 5, 5, 5});
  CHECK_THROWS_AS(add.launch({out, out, column, 4}, {.block = {4}}), ValueError);
  CHECK_THROWS_AS(add.launch({out, out, one, 4}, {.block = {4}}), ValueError);
  add.launch({out, out, out, 4}, {.block = {4}});  // one array in several places
  CHECK(out.to_vector<float>() == std::vector<float>{14, 26, 38, 50});
}

TEST_CASE("Wrong arguments are refused by kind before anything is pushed", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaKernel add = add_kernel();
  const NDArray x = counting(4), wide = x.astype(float64), host = ones({4});
  const rtc::LaunchShape shape{.block = {32}};
  CHECK_THROWS_AS(add.launch({x, x, x}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, x, x, 4, 4}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, x, x, x}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, 1, x, 4}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, NDArray(), x, 4}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, x, x, 4.5}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, x, x, std::int64_t{1} << 31}, shape), ValueError);
  CHECK_THROWS_AS(add.launch({x, wide, x, 4}, shape), DTypeError);
  CHECK_THROWS_AS(add.launch({x, host, x, 4}, shape), DeviceError);
  CHECK_THROWS_AS(add.launch({host, host, host, 4}, shape), DeviceError);
  CHECK_THROWS_WITH(
      add.launch({x, wide, x, 4}, shape),
      sluice::test::contains("rtc: kernel add: argument 1 is an array of float64, const float* is wanted"));
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE(
    "Blocks, grids and shared memory that the GPU does not take are refused, empty grids are not run", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaKernel add = add_kernel();
  const NDArray x = counting(4), z = zeros({4}, {.device = k_gpu});
  for (const rtc::LaunchShape& shape :
       {rtc::LaunchShape{.block = {1025}},
        rtc::LaunchShape{.block = {0}},
        rtc::LaunchShape{.block = {32, 0}},
        rtc::LaunchShape{.block = {1, 1, 65}},
        rtc::LaunchShape{.block = {1024, 2}},
        rtc::LaunchShape{.block = {65536, 65536}},
        rtc::LaunchShape{.grid = {1, 65536}},
        rtc::LaunchShape{.grid = {0x80000000U}},
        rtc::LaunchShape{.grid = {1, 1, 65536}},
        rtc::LaunchShape{.shared_bytes = std::size_t{1} << 20},
        rtc::LaunchShape{.shared_bytes = ~std::size_t{0}}})
    CHECK_THROWS_AS(add.launch({x, x, z, 4}, shape), ValueError);
  add.launch({x, x, z, 4}, {.grid = {0}, .block = {32}});
  add.launch({x, x, z, 4}, {.grid = {1, 0}, .block = {32}});
  CHECK(z.to_vector<float>() == std::vector<float>(4, 0.0F));
  add.launch({x, x, z, 4}, {.block = {1024}});
  CHECK(z.to_vector<float>() == std::vector<float>{0, 2, 4, 6});
}

TEST_CASE("Kernels that a source does not have, or has with other parameters, are refused", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaModule module(k_rtc_source);
  CHECK_THROWS_AS(module.kernel("subtract", k_add), ValueError);
  CHECK_THROWS_AS(module.kernel("add", "const float* x"), ValueError);
  CHECK_THROWS_AS(module.kernel("add", "const float* x, const float* y, float* z, long long n"), ValueError);
  CHECK_THROWS_AS(module.kernel("add", "const float* x, const float* y, float* z, wchar_t n"), DTypeError);
  CHECK_THROWS_AS(module.kernel("add", "const float* x; int n"), ValueError);
}

TEST_CASE("A kernel gets a gradient in an autograd::Function, and stays off the tape elsewhere", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto added = std::make_shared<Added>();
  NDArray x = counting(5), y = ones({5}, {.device = k_gpu});
  x.attach_grad();
  y.attach_grad();
  NDArray loss;
  {
    const autograd::RecordScope record;
    const NDArray both[] = {x, y};
    loss = sum(square(autograd::apply(added, both)[0]));
    const NDArray made = x * 2;
    CHECK_THROWS_AS(added->kernel.launch({x, y, x, 5}, {.block = {32}}), AutogradError);
    CHECK_THROWS_AS(added->kernel.launch({x, y, made, 5}, {.block = {32}}), AutogradError);
  }
  loss.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 4, 6, 8, 10});
  CHECK(y.grad().to_vector<float>() == x.grad().to_vector<float>());
}

TEST_CASE("What a kernel overwrites the tape does not take for what it saved", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const CudaKernel add = add_kernel();
  NDArray w = ones({3}, {.device = k_gpu});
  w.attach_grad();
  const NDArray x = counting(3);
  NDArray y;
  {
    const autograd::RecordScope record;
    y = w * x;
  }
  add.launch({x, x, x, 3}, {.block = {32}});
  CHECK_THROWS_AS(y.backward(), AutogradError);
}

TEST_CASE("A failed input's error reaches what a kernel was to write", "[rtc][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 1, .report_failures = false});
  const EngineScope scope(engine);
  const NDArray good = counting(3), z = zeros({3}, {.device = k_gpu});
  const NDArray bad = take(good, array({std::int64_t{7}, std::int64_t{0}, std::int64_t{0}}, k_gpu));
  add_kernel().launch({good, bad, z, 3}, {.block = {32}});
  CHECK_THROWS_AS(z.to_vector<float>(), IndexError);
  const std::uint64_t written = z.object()->buffer->version();
  engine.stop();
  CHECK_THROWS_AS(add_kernel().launch({good, good, z, 3}, {.block = {32}}), EngineStopped);
  CHECK(z.object()->buffer->version() == written);  // what is refused writes nothing
}

TEST_CASE("Sources are compiled where the GPU is: errors, shared memory, atomics, half types", "[rtc][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  CHECK_THROWS_AS(CudaModule("extern \"C\" __global__ void k() { return 1; }"), ValueError);
  CHECK_THROWS_WITH(CudaModule("\n\nint x = y;"), sluice::test::contains("rtc.cu(3): error"));
  const CudaModule module(R"(
extern "C" __global__ void total(const int* x, int* sum, int n) {
  extern __shared__ int part[];
  part[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    part[threadIdx.x] += x[i];
  __syncthreads();
  atomicAdd(sum, part[threadIdx.x]);
}
extern "C" __global__ void __launch_bounds__(128) few(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void hidden(int* x) { x[0] = 1; }
extern "C" __global__ void nothing() {}
)");
  const NDArray x = arange(0, 1000, 1, {.dtype = int32, .device = k_gpu}),
                total = zeros({1}, {.dtype = int32, .device = k_gpu});
  const CudaKernel sum_up = module.kernel("total", "const int* x, int* sum, int n");
  sum_up.launch({x, total, 1000}, {.block = {256}, .shared_bytes = 1024});
  CHECK(total.item<std::int64_t>() == 499500);
  sum_up.launch({x, total, 1000}, {.block = {32}, .shared_bytes = 64 << 10});  // more than every GPU gives unasked
  CHECK(total.item<std::int64_t>() == 999000);
  CHECK_THROWS_AS(sum_up.launch({x, total, 1000}, {.shared_bytes = 10 << 20}), ValueError);
  const CudaKernel few = module.kernel("few", "int* x");
  CHECK_THROWS_AS(few.launch({x}, {.block = {129}}), ValueError);
  few.launch({x}, {.block = {128}});
  CHECK(x.to_vector<std::int64_t>()[127] == 127);
  CHECK_THROWS_AS(module.kernel("hidden", "int* x"), ValueError);
  module.kernel("nothing", "").launch({}, {});
  Engine::current().wait_all();
}

TEST_CASE("A module runs on every GPU that its arrays are on", "[rtc][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(2);
  const CudaKernel add = add_kernel();
  for (int index = 0; index < num_gpus(); ++index) {
    const NDArray x = ones({100}, {.device = gpu(index)});
    add.launch({x, x, x, 100}, {.block = {128}});
    CHECK(x.to_vector<float>() == std::vector<float>(100, 2.0F));
  }
  const NDArray a = ones({1}, {.device = gpu(0)}), b = ones({1}, {.device = gpu(1)});
  CHECK_THROWS_AS(add.launch({a, b, a, 1}, {}), DeviceError);
}
