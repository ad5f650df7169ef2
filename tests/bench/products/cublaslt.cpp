#include "tests/bench/products/cublaslt.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>

namespace sluice::bench {

const CublasLt& CublasLt::get() {
  static const CublasLt loaded = [] {
    const std::string file = message("libcublasLt.so.", CUBLAS_VER_MAJOR);
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    require<LibraryError>(library != nullptr, [] { return message("cuBLASLt: ", ::dlerror()); });
    CublasLt calls;
    const auto find = [&]<class F>(F& function, const char* name) {
      function = reinterpret_cast<F>(::dlsym(library, name));
      require<LibraryError>(function != nullptr, [&] { return message("cuBLASLt has no function ", name); });
    };
#define BENCH_FIND(name) find(calls.name, #name);
    BENCH_CUBLASLT_CALLS(BENCH_FIND)
#undef BENCH_FIND
    return calls;
  }();
  return loaded;
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw CudaError(message(call, ": status ", static_cast<int>(status)), static_cast<int>(status));
}
void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw CudaError(message(call, ": ", cudaGetErrorString(error)), static_cast<int>(error));
}

std::string Config::text() const {
  return message("id=", id, ",tile=", tile, ",stages=", stages, ",custom=", custom) +
         message(",swizzle=", swizzle, ",split=", split, ",scheme=", scheme, ",inner=", inner, ",cluster=", cluster);
}

LtProduct::LtProduct(const ProductShape& shape, DType dtype)
    : lt_(CublasLt::get()),
      type_(dtype == DType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F),
      compute_(dtype == DType::bfloat16 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32),
      element_(size_of(dtype)),
      results_(shape.batch * shape.m * shape.n) {
  try {
    describe(shape);
    allocate(shape);
  } catch (...) {
    release();
    throw;
  }
}

LtProduct::~LtProduct() {
  release();
}

// The library counts columns first: our row-major c = a b is its c' = b' a'.
void LtProduct::describe(const ProductShape& shape) {
  check(lt_.cublasLtCreate(&handle_), "cublasLtCreate");
  check(lt_.cublasLtMatmulDescCreate(&product_, compute_, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t left = shape.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(
      lt_.cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
      "cublasLtMatmulDescSetAttribute");
  const std::int64_t extents[3][2] = {
      {shape.turned ? shape.k : shape.n, shape.turned ? shape.n : shape.k}, {shape.k, shape.m}, {shape.n, shape.m}};
  for (int i = 0; i < 3; ++i) {
    const auto rows = static_cast<std::uint64_t>(extents[i][0]), columns = static_cast<std::uint64_t>(extents[i][1]);
    check(
        lt_.cublasLtMatrixLayoutCreate(&layouts_[i], type_, rows, columns, extents[i][0]),
        "cublasLtMatrixLayoutCreate");
    if (shape.batch == 1)
      continue;
    const auto count = static_cast<std::int32_t>(shape.batch);
    const std::int64_t step = extents[i][0] * extents[i][1];
    check(
        lt_.cublasLtMatrixLayoutSetAttribute(layouts_[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
    check(
        lt_.cublasLtMatrixLayoutSetAttribute(
            layouts_[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
        "cublasLtMatrixLayoutSetAttribute");
  }
}

// Random numbers as data have them: constants would cost less power, and run quicker.
void LtProduct::allocate(const ProductShape& shape) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
  check(cudaMalloc(&workspace_, k_workspace), "cudaMalloc");
  const std::int64_t counts[3] = {shape.n * shape.k, shape.m * shape.k, shape.m * shape.n};
  std::mt19937 engine(3);
  std::uniform_real_distribution<float> draw(-0.1F, 0.1F);
  constexpr std::size_t k_period = 1000003;
  std::vector<char> numbers(k_period * element_);
  for (std::size_t i = 0; i < k_period; ++i) {
    const float value = draw(engine);
    // The upper half of a float is a bfloat16.
    std::memcpy(&numbers[i * element_], reinterpret_cast<const char*>(&value) + sizeof value - element_, element_);
  }
  for (int i = 0; i < 3; ++i) {
    const std::size_t bytes = static_cast<std::size_t>(shape.batch * counts[i]) * element_;
    check(cudaMalloc(&operands_[i], bytes), "cudaMalloc");
    for (std::size_t at = 0; i < 2 && at < bytes; at += numbers.size()) {
      const std::size_t length = std::min(numbers.size(), bytes - at);
      check(
          cudaMemcpy(static_cast<char*>(operands_[i]) + at, numbers.data(), length, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    }
  }
}

void LtProduct::release() noexcept {
  if (stream_ != nullptr)
    cudaStreamSynchronize(stream_);
  for (void* const operand : operands_)
    cudaFree(operand);
  cudaFree(workspace_);
  if (begin_ != nullptr)
    cudaEventDestroy(begin_);
  if (end_ != nullptr)
    cudaEventDestroy(end_);
  if (stream_ != nullptr)
    cudaStreamDestroy(stream_);
  for (const auto layout : layouts_) {
    if (layout != nullptr)
      lt_.cublasLtMatrixLayoutDestroy(layout);
  }
  if (product_ != nullptr)
    lt_.cublasLtMatmulDescDestroy(product_);
  if (handle_ != nullptr)
    lt_.cublasLtDestroy(handle_);
}

std::vector<int> LtProduct::ids() const {
  std::vector<int> found(1024);
  int count = 0;
  check(
      lt_.cublasLtMatmulAlgoGetIds(
          handle_, compute_, CUDA_R_32F, type_, type_, type_, type_, 1024, found.data(), &count),
      "cublasLtMatmulAlgoGetIds");
  found.resize(static_cast<std::size_t>(count));
  return found;
}

bool LtProduct::init(int id, cublasLtMatmulAlgo_t& algorithm) const {
  return lt_.cublasLtMatmulAlgoInit(handle_, compute_, CUDA_R_32F, type_, type_, type_, type_, id, &algorithm) ==
         CUBLAS_STATUS_SUCCESS;
}

bool LtProduct::take(const Config& config, Choice& choice) const {
  choice.config = config;
  cublasLtMatmulAlgo_t* const algorithm = &choice.algorithm;
  if (!init(config.id, *algorithm))
    return false;
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t what, const auto& value) {
    return lt_.cublasLtMatmulAlgoConfigSetAttribute(algorithm, what, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  const bool taken =
      set(CUBLASLT_ALGO_CONFIG_TILE_ID, config.tile) && set(CUBLASLT_ALGO_CONFIG_STAGES_ID, config.stages) &&
      set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, config.custom) &&
      set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, config.swizzle) && set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, config.split) &&
      set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, config.scheme) &&
      set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, config.inner) &&
      set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, config.cluster);
  return taken && check_choice(choice);
}

bool LtProduct::take(const std::vector<std::uint64_t>& words, Choice& choice) const {
  if (words.size() != std::size(choice.algorithm.data))
    return false;
  std::copy(words.begin(), words.end(), choice.algorithm.data);
  return check_choice(choice);
}

bool LtProduct::check_choice(Choice& choice) const {
  cublasLtMatmulHeuristicResult_t result{};
  if (lt_.cublasLtMatmulAlgoCheck(
          handle_, product_, layouts_[0], layouts_[1], layouts_[2], layouts_[2], &choice.algorithm, &result) !=
      CUBLAS_STATUS_SUCCESS)
    return false;
  choice.workspace = result.workspaceSize;
  return choice.workspace <= k_workspace;
}

std::vector<Choice> LtProduct::predictions(std::uint32_t schemes, std::size_t workspace) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt_.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const std::uint64_t bytes = workspace;
  lt_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  lt_.cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
  std::vector<cublasLtMatmulHeuristicResult_t> found(64);
  int count = 0;
  const cublasStatus_t status = lt_.cublasLtMatmulAlgoGetHeuristic(
      handle_, product_, layouts_[0], layouts_[1], layouts_[2], layouts_[2], preference, 64, found.data(), &count);
  lt_.cublasLtMatmulPreferenceDestroy(preference);
  std::vector<Choice> choices;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    const auto& result = found[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS)
      continue;
    Choice choice{.algorithm = result.algo, .workspace = result.workspaceSize};
    const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t what, auto& value) {
      std::size_t written = 0;
      lt_.cublasLtMatmulAlgoConfigGetAttribute(&result.algo, what, &value, sizeof value, &written);
    };
    Config& config = choice.config;
    get(CUBLASLT_ALGO_CONFIG_ID, config.id);
    get(CUBLASLT_ALGO_CONFIG_TILE_ID, config.tile);
    get(CUBLASLT_ALGO_CONFIG_STAGES_ID, config.stages);
    get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, config.custom);
    get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, config.swizzle);
    get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, config.split);
    get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, config.scheme);
    get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, config.inner);
    get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, config.cluster);
    choices.push_back(choice);
  }
  return choices;
}

bool LtProduct::run(const Choice& choice) const {
  const float one = 1, zero = 0;
  return lt_.cublasLtMatmul(
             handle_,
             product_,
             &one,
             operands_[0],
             layouts_[0],
             operands_[1],
             layouts_[1],
             &zero,
             operands_[2],
             layouts_[2],
             operands_[2],
             layouts_[2],
             &choice.algorithm,
             workspace_,
             choice.workspace,
             stream_) == CUBLAS_STATUS_SUCCESS;
}

double LtProduct::graph_seconds(const Choice& choice, int runs, int repeats, bool middle, double limit) const {
  if (!run(choice))  // loads its kernel
    return -1;
  check(cudaStreamSynchronize(stream_), choice.config.text().c_str());
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  bool good = true;
  for (int i = 0; i < runs; ++i)
    good = run(choice) && good;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  good = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && good;
  good = good && cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
  std::vector<double> seconds;
  for (int repeat = 0; good && repeat <= repeats; ++repeat) {
    float milliseconds = 0;
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), choice.config.text().c_str());
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    const double each = static_cast<double>(milliseconds) * 1e-3 / runs;
    if (repeat > 0 || each > limit)  // the first launch uploads the graph
      seconds.push_back(each);
    if (each > limit)
      break;
  }
  if (executable != nullptr)
    cudaGraphExecDestroy(executable);
  if (graph != nullptr)
    cudaGraphDestroy(graph);
  if (!good || seconds.empty()) {
    cudaGetLastError();
    return -1;
  }
  std::sort(seconds.begin(), seconds.end());
  return middle ? seconds[seconds.size() / 2] : seconds.front();
}

double LtProduct::eager_seconds(const Choice& choice) const {
  using Clock = std::chrono::steady_clock;
  constexpr int k_calls = 60;
  std::vector<double> seconds;
  for (int block = 0; block < 8; ++block) {
    const auto start = Clock::now();
    for (int i = 0; i < k_calls; ++i)
      run(choice);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    if (block > 0)
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / k_calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// The last results, which ends of tiles and of batches are among.
std::vector<float> LtProduct::sample(const Choice& choice) const {
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(results_, 4096));
  const std::size_t bytes = static_cast<std::size_t>(results_) * element_;
  check(cudaMemsetAsync(operands_[2], 0xff, bytes, stream_), "cudaMemsetAsync");  // NaN
  std::vector<float> values(count, std::numeric_limits<float>::quiet_NaN());
  if (!run(choice))
    return values;
  std::vector<char> raw(count * element_);
  const char* const from = static_cast<const char*>(operands_[2]) + bytes - raw.size();
  check(cudaMemcpyAsync(raw.data(), from, raw.size(), cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 0;
    std::memcpy(reinterpret_cast<char*>(&values[i]) + sizeof(float) - element_, &raw[i * element_], element_);
  }
  return values;
}

bool LtProduct::agrees(const Choice& choice, const Choice& with) const {
  const std::vector<float> got = sample(choice), want = sample(with);
  float largest = 0;
  for (const float value : want)
    largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!(std::abs(got[i] - want[i]) <= 0.02F * largest))  // a NaN is none
      return false;
  }
  return true;
}

}  // namespace sluice::bench
