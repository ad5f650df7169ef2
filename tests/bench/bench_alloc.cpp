// What memory costs: nanoseconds for a chunk taken and given back, and how much the pool holds from the system for
// what the program holds. Two workloads:
//   random    the one of PyTorch's C++ allocator that libtorch_bench.cpp times: same sizes, same generator, 64 live
//             chunks, a random one goes for each new one
//   resnet50  the arrays of a training step (traces/resnet50.py says how derived), again and again
// "reserved/peak" divides the most that was reserved by the most that was allocated. libtorch_bench.cpp divides by the
// most of its first round alone, which no allocator could bring below 1.15: that figure is "reserved/first".
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <sluice/storage/api.h>
#ifdef SLUICE_CUDA
#include <cuda_runtime_api.h>
#endif

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

struct Event {
  std::uint32_t id;
  std::size_t bytes;  // 0 = ends
};

constexpr Event k_resnet50[] = {
#include "tests/bench/traces/resnet50.txt"
};

/// A pool of ours.
class Pooled {
 public:
  using Held = Chunk;

  Pooled(const std::string& name, Device device) : pool_(choose(engine_, name, device)) {}
  Held take(std::size_t bytes) { return pool_.acquire(bytes); }
  void give(Held& held) { pool_.release(std::move(held)); }
  double peak_reserved() const { return static_cast<double>(pool_.stats().peak_reserved); }
  bool clean() const { return pool_.stats().active == 0 && pool_.stats().allocations == pool_.stats().releases; }

 private:
  static Pool& choose(Engine& engine, const std::string& name, Device device) {
    StorageOptions options;
    (device.is_gpu() ? options.device : options.host) = name;
    Storage::of(engine).configure(options);
    return Storage::of(engine).pool(device);
  }

  Engine engine_;
  Pool& pool_;
};

#ifdef SLUICE_CUDA
void check(cudaError_t result) {
  if (result != cudaSuccess)
    throw CudaError(cudaGetErrorString(result), static_cast<int>(result));
}

/// The driver's calls, as a program without pools makes them.
class Plain {
 public:
  using Held = void*;

  Plain(bool async, Device device) : async_(async) {
    check(cudaSetDevice(device.index));
    check(cudaDeviceGetDefaultMemPool(&pool_, device.index));
    std::uint64_t keep = ~std::uint64_t{0}, zero = 0;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &zero));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Plain() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaMemPoolTrimTo(pool_, 0);
  }
  Held take(std::size_t bytes) {
    void* data = nullptr;
    check(async_ ? cudaMallocAsync(&data, bytes, stream_) : cudaMalloc(&data, bytes));
    return data;
  }
  void give(Held& held) { check(async_ ? cudaFreeAsync(held, stream_) : cudaFree(held)); }
  /// 0 where the driver does not say.
  double peak_reserved() const {
    std::uint64_t high = 0;
    if (async_)
      check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &high));
    return static_cast<double>(high);
  }
  bool clean() const { return true; }

 private:
  bool async_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;
};
#endif

struct Counted {
  double held = 0, peak = 0, first_peak = 0;
  void add(std::size_t bytes) {
    held += static_cast<double>(bytes);
    peak = std::max(peak, held);
  }
};

void add_ratios(
    bench::Report& report, const char* workload, const std::string& variant, const Counted& counted, double reserved) {
  if (reserved <= 0)
    return;
  report.add(workload, variant, "reserved/peak", reserved / counted.peak, "ratio");
  report.expect(reserved >= counted.peak, variant + ": reserved less than was allocated");
  if (counted.first_peak > 0)
    report.add(workload, variant, "reserved/first", reserved / counted.first_peak, "ratio");
}

/// `bytes`, or a 256th of it in a smoke run: Meson asks the C library to fill what it gives out (MALLOC_PERTURB_).
std::size_t scaled(const bench::Report& report, std::size_t bytes) {
  return report.options().smoke ? (bytes + 255) / 256 : bytes;
}

template <class Allocator>
void random_sizes(bench::Report& report, const std::string& variant, Allocator& allocator, bool slow, unsigned seed) {
  if (!report.wants("random", variant))
    return;
  std::mt19937 random(seed);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < (report.options().smoke ? 512 : 4096); ++i) {
    const std::size_t bytes = random() % 2 ? std::size_t{1} << (9 + random() % 18) : 1 + random() % (1u << 24);
    sizes.push_back(scaled(report, bytes));
  }
  std::vector<std::pair<typename Allocator::Held, std::size_t>> live;
  live.reserve(sizes.size());
  Counted counted;
  const auto round = [&] {
    for (const std::size_t bytes : sizes) {
      auto held = allocator.take(bytes);
      counted.add(bytes);
      if (live.size() < 64) {
        live.emplace_back(std::move(held), bytes);
        continue;
      }
      auto& [place, its] = live[random() % 64];
      allocator.give(place);
      counted.held -= static_cast<double>(its);
      place = std::move(held);
      its = bytes;
    }
  };
  round();
  counted.first_peak = counted.peak;
  const int repeats = report.options().repeats;
  const int steps = slow ? 1 : (20 + repeats - 1) / repeats;  // 20 rounds in all, as there
  const bench::Timing timing = report.time(steps, 0, round, [] {});
  const double count = static_cast<double>(sizes.size());
  report.add("random", variant, "pair", timing.median / count * 1e9, "ns", timing.min / count * 1e9);
  add_ratios(report, "random", variant, counted, allocator.peak_reserved());
  for (auto& [held, bytes] : live)
    allocator.give(held);
  report.expect(allocator.clean(), variant + ": chunks on loan at the end");
}

template <class Allocator>
void resnet50(bench::Report& report, const std::string& variant, Allocator& allocator, bool slow) {
  if (!report.wants("resnet50", variant))
    return;
  std::uint32_t last = 0;
  for (const Event& event : k_resnet50)
    last = std::max(last, event.id);
  std::vector<std::pair<typename Allocator::Held, std::size_t>> held(last + 1);
  Counted counted;
  const auto play = [&](const Event* from, const Event* to) {
    for (const Event* event = from; event != to; ++event) {
      auto& [place, bytes] = held[event->id];
      if (event->bytes != 0) {
        bytes = scaled(report, event->bytes);
        place = allocator.take(bytes);
        counted.add(bytes);
      } else {
        allocator.give(place);
        counted.held -= static_cast<double>(std::exchange(bytes, 0));
      }
    }
  };
  const Event* const begin =
      std::find_if(std::begin(k_resnet50), std::end(k_resnet50), [](const Event& event) { return event.id == 0; });
  play(std::begin(k_resnet50), begin);  // parameters
  const auto step = [&] { play(begin + 1, std::end(k_resnet50)); };
  const bench::Timing timing = report.time(slow ? 1 : 100, slow ? 1 : 3, step, [] {});
  const double pairs = static_cast<double>(std::end(k_resnet50) - begin - 1) / 2;
  report.add("resnet50", variant, "pair", timing.median / pairs * 1e9, "ns", timing.min / pairs * 1e9);
  add_ratios(report, "resnet50", variant, counted, allocator.peak_reserved());
  for (auto& [place, bytes] : held) {
    if (bytes != 0)
      allocator.give(place);
  }
  report.expect(allocator.clean(), variant + ": chunks on loan at the end");
}

/// Each workload on an allocator of its own, made by `make`.
template <class Make>
void both(bench::Report& report, const std::string& variant, bool slow, unsigned seed, Make&& make) {
  {
    auto allocator = make();
    random_sizes(report, variant, *allocator, slow, seed);
  }
  auto allocator = make();
  resnet50(report, variant, *allocator, slow);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_alloc", "Memory: time for a chunk, and what the pool holds for it");
  unsigned seed = 0;
  report.flag("--seed", seed, "Of the random sizes").with_default();
  if (!report.parse(argc, argv))
    return report.exit_code();
  const Device device = report.options().device;
  for (const std::string& name : pool_names(device.is_gpu() ? MemoryKind::device : MemoryKind::host))
    both(report, name, name == "direct", seed, [&] { return std::make_unique<Pooled>(name, device); });
#ifdef SLUICE_CUDA
  if (device.is_gpu()) {
    both(report, "cudaMalloc", true, seed, [&] { return std::make_unique<Plain>(false, device); });
    both(report, "cudaMallocAsync", false, seed, [&] { return std::make_unique<Plain>(true, device); });
  }
#endif
  return report.finish();
}
