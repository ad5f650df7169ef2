// Denormals in operators: arithmetic in float32 reads and writes them as zero, on as many threads as there may be and
// on a GPU alike; float64 and whatever only moves bits keep them.
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <limits>
#include <unistd.h>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/denormals.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr float k_smallest = std::numeric_limits<float>::min();
constexpr double k_double_denormal = 1e-310;

NDArray of(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return from_values(values.data(), float32, n, {n}, {});
}

bool is_denormal(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7f800000u) == 0 && (bits & 0x7fffffffu) != 0;
}

int denormals_in(const NDArray& array) {
  int count = 0;
  for (float x : array.to_vector<float>())
    count += is_denormal(x) ? 1 : 0;
  return count;
}

int zeros_in(const NDArray& array) {
  int count = 0;
  for (float x : array.to_vector<float>())
    count += x == 0.0f ? 1 : 0;
  return count;
}

// What may stand where denormals are: k_can_flush or not.
const float k_flushed = k_can_flush ? 0.0f : k_denormal;

// Some of each kind, long enough for every thread and for the ends of vectors.
std::vector<float> mixed_values(std::int64_t n) {
  const float kinds[] = {k_denormal, -3e-39f, 1.0f, k_smallest, -k_smallest, 0.0f, 1e-45f, -2.5f, -0.0f, 3e-38f, 0.25f};
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(kinds[i % 11]);
  return values;
}

std::vector<std::uint32_t> bits_of(const NDArray& array) {
  const auto values = array.to_vector<float>();
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

}  // namespace

TEST_CASE("Arithmetic in float32 reads a denormal as zero, and writes zero for one") {
  const NDArray tiny = of({k_denormal, -k_denormal}), one = of({1, 1}), smallest = of({k_smallest, -k_smallest});
  CHECK((tiny * one).to_vector<float>() == std::vector<float>{k_flushed, -k_flushed});
  CHECK((tiny + tiny).to_vector<float>()[0] == 2 * k_flushed);
  CHECK(denormals_in(smallest * 0.5) == (k_can_flush ? 0 : 2));
  CHECK(denormals_in(smallest - of({1.5f * k_smallest, 0})) == (k_can_flush ? 0 : 1));
  if (k_can_flush) {
    CHECK((tiny == zeros({2})).to_vector<bool>() == std::vector<bool>{true, true});
    CHECK(std::isinf(log(tiny).to_vector<float>()[0]));
    CHECK(std::isinf(reciprocal(tiny).to_vector<float>()[0]));
    CHECK(log2(of({k_denormal})).item<float>() == -std::numeric_limits<float>::infinity());
    CHECK(cbrt(of({k_denormal})).item<float>() == 0.0f);
  }
  CHECK(sum(tiny.slice(0, 0, 1)).item<float>() == k_flushed);
  CHECK(keeps_denormals());
}

TEST_CASE("An engine that keeps denormals does so in operators, by one worker or two") {
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers, .denormals = Denormals::keep});
    EngineScope scope(engine);
    CHECK((of({k_denormal}) * of({1})).item<float>() == k_denormal);
    const NDArray many = full({200'000}, k_denormal);
    CHECK(denormals_in(many * 1.5) == 200'000);
  }
}

TEST_CASE("float64 keeps its denormals, as on a GPU") {
  const NDArray tiny = full({100'000}, k_double_denormal, {.dtype = float64});
  const auto doubled = (tiny * 2.0).to_vector<double>();
  CHECK(doubled[0] == 2 * k_double_denormal);
  CHECK(doubled[99'999] == 2 * k_double_denormal);
  CHECK(sum(tiny).item<double>() > 0.99e5 * k_double_denormal);
  const NDArray weights[] = {zeros({3}, {.dtype = float64})},
                grads[] = {full({3}, k_double_denormal, {.dtype = float64})};
  sgd_update(weights, grads, {}, {.learning_rate = 1});
  CHECK(weights[0].to_vector<double>()[2] == -k_double_denormal);
}

TEST_CASE("Small float16 numbers, which are no denormals in float32, are not lost") {
  const Half smallest(6e-8f);  // the least that there is
  REQUIRE(smallest.bits == 1);
  const NDArray x = full({1001}, 3 * 5.960464477539063e-8, {.dtype = float16});
  const float value = 3 * 0x1p-24f;
  CHECK(x.astype(float32).to_vector<float>()[1000] == value);
  CHECK((x + x).to_vector<float>()[7] == 2 * value);
  CHECK((x.astype(float32) * 1.0).astype(float16).to_vector<float>()[1000] == value);
  CHECK(sum(x.astype(float32)).item<float>() == Approx(1001 * value));
}

TEST_CASE("A change of type flushes in float32, and nowhere else") {
  const NDArray tiny = of({k_denormal, k_smallest});
  CHECK(tiny.astype(float64).to_vector<double>() == std::vector<double>{k_flushed, k_smallest});
  const NDArray wide = array<double>({1e-40, 1.0}).astype(float32);
  CHECK(wide.to_vector<float>() == std::vector<float>{k_can_flush ? 0.0f : 1e-40f, 1.0f});
  const NDArray precise = full({1}, k_double_denormal, {.dtype = float64});
  CHECK(precise.astype(bool_).to_vector<bool>()[0]);
}

TEST_CASE("What only moves bits keeps them: fills, copies, views made contiguous, concat, take, files") {
  const std::vector<float> values = mixed_values(66);
  const NDArray x = of(values);
  const auto same = [&](const NDArray& y) {
    const auto got = bits_of(y);
    return got == bits_of(x);
  };
  REQUIRE(denormals_in(x) > 10);
  CHECK(same(x.copy()));
  CHECK(same(x.reshape({6, 11}).copy().reshape({66})));
  CHECK(same(x.reshape({6, 11}).T().contiguous().T().contiguous().reshape({66})));
  CHECK(same(concat({x.slice(0, 0, 13), x.slice(0, 13, 66)}, 0)));
  CHECK(same(take(x, arange(0, 66, 1, {.dtype = int64}))));
  CHECK(same(where(x == x, x, zeros({66}))));
  CHECK(full({3}, k_denormal).to_vector<float>() == std::vector<float>(3, k_denormal));
  NDArray filled = empty({2});
  fill(filled, -1e-45f);
  CHECK(denormals_in(filled) == 2);
  const auto path = std::filesystem::temp_directory_path() / ("sluice-denormals-" + std::to_string(getpid()) + ".npz");
  save(path.string(), {{"x", x}});
  CHECK(same(load(path.string()).at("x")));
  std::filesystem::remove(path);
}

TEST_CASE("The same bits with denormals, whatever the number of workers") {
  const std::vector<float> values = mixed_values(300'001);
  std::vector<std::vector<std::uint32_t>> seen;
  for (int workers : {1, 2, 3}) {
    Engine engine({.workers = workers});
    EngineScope scope(engine);
    const NDArray x = of(values);
    seen.push_back(bits_of(exp(x * 0.3) * x + x / 3));
  }
  CHECK(seen[0] == seen[1]);
  CHECK(seen[0] == seen[2]);
}

TEST_CASE("Moments that die out become zero, not denormal") {
  const NDArray weight = ones({1000}), grad = full({1000}, 1e-30f), mean = zeros({1000}), variance = zeros({1000});
  const NDArray weights[] = {weight}, grads[] = {grad}, means[] = {mean}, variances[] = {variance};
  for (std::int64_t step = 1; step <= 200; ++step) {
    adam_update(weights, grads, means, variances, {.learning_rate = 1e-3, .steps = {step}});
    if (step == 1)
      fill(grad, 0);
  }
  CHECK(denormals_in(mean) == 0);
  CHECK(denormals_in(variance) == 0);
}

namespace {

// Of the OpenMP runtime that oneDNN has brought into the process; null without.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

Parallel openmp_parallel() {
  void* const library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Parallel>(dlsym(library, "GOMP_parallel"));
}

struct Team {
  std::atomic<int> there{0}, keeping{0};
};

}  // namespace

TEST_CASE("OpenMP's team flushes for a product, and not for a closure of the user's") {
  Engine engine({.workers = 2});
  EngineScope scope(engine);
  const NDArray tiny = full({256, 256}, k_denormal), unit = full({256, 256}, 1);
  // With a team or, when a worker is late, without.
  for (int round = 0; round < 20; ++round)
    REQUIRE(zeros_in(matmul(tiny, unit)) == (k_can_flush ? 256 * 256 : 0));
  const Parallel parallel = openmp_parallel();
  if (parallel == nullptr)
    SLUICE_SKIP("no oneDNN with GNU's OpenMP here");
  const auto keeping = [&](Denormals wanted) {
    Team team;
    CHECK(eventually([&] {
      team.there = team.keeping = 0;
      engine.push({.name = "openmp", .threads = 2, .denormals = wanted}, [&](Queue queue) {
        parallel(
            [](void* seen) {
              ++static_cast<Team*>(seen)->there;
              static_cast<Team*>(seen)->keeping += keeps_denormals() ? 1 : 0;
            },
            &team,
            static_cast<unsigned>(queue.threads()),
            0);
      });
      engine.wait_all();
      return team.there == 2;
    }));
    return team.keeping.load();
  };
  for (int round = 0; round < 3; ++round) {
    CHECK(keeping(Denormals::keep) == 2);
    CHECK(keeping(Denormals::flush) == (k_can_flush ? 0 : 2));
    REQUIRE(zeros_in(matmul(tiny, unit)) == (k_can_flush ? 256 * 256 : 0));
  }
}

namespace {

// Operators that only choose among values, or change their signs, may hand on a denormal as it is, or as zero.
std::vector<float> without_denormals(const NDArray& array) {
  auto values = array.to_vector<float>();
  for (float& x : values)
    x = is_denormal(x) ? 0.0f : x;
  return values;
}

void compare(const char* name, const NDArray& gpu_result, const NDArray& cpu_result) {
  INFO(name);
  const auto got = without_denormals(gpu_result.to(cpu())), want = without_denormals(cpu_result);
  REQUIRE(got.size() == want.size());
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    const bool close = std::fabs(got[i] - want[i]) <= 1e-5f * std::fabs(want[i]);
    if (!both_nan && got[i] != want[i] && !close && wrong++ == 0)
      UNSCOPED_INFO("element " << i << ": " << got[i] << " on the GPU, " << want[i] << " on the CPU");
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("Every row treats denormals on a GPU as on the CPU", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = of(mixed_values(1001)), y = concat({x.slice(0, 5, 1001), x.slice(0, 0, 5)}, 0);
  const NDArray gx = x.to(gpu()), gy = y.to(gpu());
  CHECK(bits_of(gx.to(cpu())) == bits_of(x));
  for (const UnaryCase& row : unary_cases())
    compare(row.name, row(gx).astype(float32), row(x).astype(float32));
  for (const BinaryCase& row : binary_cases())
    compare(row.name, row(gx, gy).astype(float32), row(x, y).astype(float32));
}

TEST_CASE("Casts, sums, products and updates treat denormals on a GPU as on the CPU", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = of(mixed_values(1001)), gx = x.to(gpu());
  for (DType type : {float16, bfloat16, float64, int32, bool_})
    CHECK(gx.astype(type).to(cpu()).to_vector<double>() == x.astype(type).to_vector<double>());
  const NDArray wide = array<double>({1e-40, -1e-300, k_double_denormal, 1e-7});
  const NDArray gwide = wide.to(gpu());
  for (DType type : {float16, bfloat16, float32, bool_})
    CHECK(gwide.astype(type).to(cpu()).to_vector<double>() == wide.astype(type).to_vector<double>());
  CHECK((gwide * 3.0).to(cpu()).to_vector<double>() == (wide * 3.0).to_vector<double>());
  const NDArray small = full({77}, 6e-8, {.dtype = float16});
  const NDArray gsmall = small.to(gpu());
  CHECK((gsmall + gsmall).to(cpu()).to_vector<float>() == (small + small).to_vector<float>());
  CHECK(gsmall.astype(float32).to(cpu()).to_vector<float>() == small.astype(float32).to_vector<float>());
  const NDArray tiny = full({64}, k_denormal), gtiny = tiny.to(gpu());
  CHECK(sum(gtiny).item<float>() == sum(tiny).item<float>());
  for (Device device : {cpu(), gpu()}) {
    const NDArray weights[] = {ones({100}, {.device = device})}, grads[] = {full({100}, 1e-30f, {.device = device})};
    const NDArray means[] = {zeros({100}, {.device = device})}, variances[] = {zeros({100}, {.device = device})};
    for (std::int64_t step = 1; step <= 200; ++step) {
      adam_update(weights, grads, means, variances, {.learning_rate = 1e-3, .steps = {step}});
      if (step == 1)
        fill(grads[0], 0);
    }
    CHECK(denormals_in(means[0].to(cpu())) == 0);
    CHECK(denormals_in(variances[0].to(cpu())) == 0);
  }
}
