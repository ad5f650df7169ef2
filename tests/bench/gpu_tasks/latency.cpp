#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"
#include "tests/bench/support/gpu_kernels.h"

namespace gpu_tasks {

using namespace sluice;
using bench::PinnedArray;
using Clock = std::chrono::steady_clock;

namespace {

/// A way to get one reading, in us.
struct Probe {
  std::string variant;
  std::function<double()> read;
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Spins until the GPU has written `value`.
void spin_until(const std::uint64_t& word, std::uint64_t value) {
  const auto* seen = &static_cast<const volatile std::uint64_t&>(word);
  const Clock::time_point start = Clock::now();
  while (*seen != value)
    require<Error>(microseconds_since(start) < 10e6, [] { return "the GPU does not answer"; });
}

/// One reading of each in turn, so many times; a few to warm up go before.
void take_samples(bench::Report& report, const std::string& workload, int samples, const std::vector<Probe>& probes) {
  std::vector<std::vector<double>> values(probes.size());
  for (int i = -5; i < samples; ++i) {
    for (std::size_t k = 0; k < probes.size(); ++k) {
      if (!report.wants(workload, probes[k].variant))
        continue;
      const double value = probes[k].read();
      if (i >= 0)
        values[k].push_back(value);
    }
  }
  for (std::size_t k = 0; k < probes.size(); ++k) {
    std::vector<double>& sorted = values[k];
    if (sorted.empty())
      continue;
    std::sort(sorted.begin(), sorted.end());
    report.add(workload, probes[k].variant, "p50", sorted[(sorted.size() - 1) / 2], "us", sorted.front());
    report.add(workload, probes[k].variant, "p99", sorted[(sorted.size() - 1) * 99 / 100], "us", sorted.front());
  }
}

/// A number on the GPU that a kernel adds one to; read back by hand in three ways.
class ByHand {
 public:
  explicit ByHand(bench::Report& report) : report_(report) {}

  double only_wait() {
    const Clock::time_point start = begin();
    bench::wait_for(stream_.get());
    return microseconds_since(start);
  }
  double copy_and_wait() {
    const Clock::time_point start = begin();
    bench::check(
        cudaMemcpyAsync(here_.data(), there_.data(), sizeof(float), cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync");
    bench::wait_for(stream_.get());
    return end(start, "copy");
  }
  double kernel_and_flag() {
    const Clock::time_point start = begin();
    bench::launch_read_out(stream_.get(), here_.data(), there_.data(), flag_.data(), ++flags_);
    spin_until(flag_[0], flags_);
    return end(start, "flag");
  }

 private:
  Clock::time_point begin() {
    ++count_;
    const Clock::time_point start = Clock::now();
    bench::launch_increment(stream_.get(), there_.data());
    return start;
  }
  double end(Clock::time_point start, const char* what) {
    const double taken = microseconds_since(start);
    report_.expect(here_[0] == count_, std::string("scalar-read by hand: ") + what);
    return taken;
  }

  bench::Report& report_;
  bench::StreamOwner stream_ = bench::new_stream();
  bench::GpuArray<float> there_{std::vector<float>{0}};
  PinnedArray<float> here_{1};
  PinnedArray<std::uint64_t> flag_{1};
  float count_ = 0;
  std::uint64_t flags_ = 0;
};

/// The same through an engine: two tasks and a wait, or an array's item().
class ByEngine {
 public:
  ByEngine(bench::Report& report, Device device, LaunchMode launch)
      : report_(report), device_(device), engine_(bench::launched(launch)) {
    const EngineScope scope(engine_);
    array_ = zeros({1}, {.device = device});
    array_var_ = engine_.new_var({.home = device});
    here_var_ = engine_.new_var();
  }

  double item() {
    const EngineScope scope(engine_);
    const Clock::time_point start = Clock::now();
    array_ += 1.0F;
    const auto value = array_.item<float>();
    const double taken = microseconds_since(start);
    report_.expect(value == ++items_, "scalar-read: item()");
    return taken;
  }
  double tasks() {
    const Clock::time_point start = Clock::now();
    float *there = there_.data(), *here = here_.data();
    std::uint64_t* flag = flag_.data();
    engine_.push(
        {.name = "increment", .device = device_, .access = {write(array_var_)}, .capturable = true},
        [there](Queue queue) { bench::launch_increment(queue.stream(), there); });
    engine_.push(
        {.name = "read out", .device = device_, .access = {read(array_var_), out(here_var_)}, .capturable = true},
        [here, there, flag](Queue queue) { bench::launch_read_out(queue.stream(), here, there, flag, 1); });
    engine_.wait(here_var_);
    const double taken = microseconds_since(start);
    report_.expect(here_[0] == ++count_, "scalar-read: tasks");
    return taken;
  }

 private:
  bench::Report& report_;
  Device device_;
  bench::GpuArray<float> there_{std::vector<float>{0}};  // memory outlives the engine, which waits for its tasks
  PinnedArray<float> here_{1};
  PinnedArray<std::uint64_t> flag_{1};
  Engine engine_;
  NDArray array_;
  Var array_var_, here_var_;
  float items_ = 0, count_ = 0;
};

}  // namespace

void scalar_read(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  ByHand by_hand(report);
  std::vector<Probe> probes{
      {"raw-kernel-wait-only", [&] { return by_hand.only_wait(); }},
      {"raw-memcpy-synchronise", [&] { return by_hand.copy_and_wait(); }},
      {"raw-mapped-flag", [&] { return by_hand.kernel_and_flag(); }}};
  std::deque<ByEngine> engines;
  for (const LaunchMode launch : bench.launches()) {
    ByEngine& one = engines.emplace_back(report, bench.device(), launch);
    probes.push_back({message("engine-", to_string(launch), "-item"), [&one] { return one.item(); }});
    probes.push_back({message("engine-", to_string(launch), "-tasks"), [&one] { return one.tasks(); }});
  }
  take_samples(report, "scalar-read", settings.samples, probes);
}

namespace {

constexpr int k_load_kernels = 40, k_load_vars = 8;
constexpr unsigned k_block_us = 10;

int load_blocks(Device device) {
  int processors = 0;
  bench::check(
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device.index), "cudaDeviceGetAttribute");
  return 8 * processors;  // of 1024 threads: four waves, so that a kernel leaves places every 10 us
}

/// Streams and priorities chosen by hand; `urgent` false: the probe is one more kernel of a normal stream.
class UrgentByHand {
 public:
  explicit UrgentByHand(Device device) : blocks_(load_blocks(device)) {
    int least = 0, greatest = 0;
    bench::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    for (bench::StreamOwner& stream : load_)
      stream = bench::new_stream(least);
    urgent_ = bench::new_stream(greatest);
  }

  double read() {
    for (int i = 0; i < k_load_kernels; ++i)
      bench::launch_spin(load_[i % 4].get(), blocks_, k_block_us);
    const Clock::time_point start = Clock::now();
    bench::launch_publish(urgent_.get(), word_.data(), ++value_);
    spin_until(word_[0], value_);
    const double taken = microseconds_since(start);
    bench::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return taken;
  }

 private:
  int blocks_;
  bench::StreamOwner load_[4], urgent_;
  PinnedArray<std::uint64_t> word_{1};
  std::uint64_t value_ = 0;
};

class UrgentTasks {
 public:
  UrgentTasks(Device device, LaunchMode launch)
      : device_(device), blocks_(load_blocks(device)), engine_(bench::launched(launch)) {
    for (int i = 0; i <= k_load_vars; ++i)
      vars_.push_back(engine_.new_var({.home = device}));
  }

  double read(Priority priority) {
    const int blocks = blocks_;
    for (int i = 0; i < k_load_kernels; ++i) {
      const Task load{.name = "load", .device = device_, .access = {write(vars_[i % k_load_vars])}, .capturable = true};
      engine_.push(load, [blocks](Queue queue) { bench::launch_spin(queue.stream(), blocks, k_block_us); });
    }
    std::uint64_t* word = word_.data();
    const std::uint64_t value = ++value_;
    const Clock::time_point start = Clock::now();
    engine_.push(
        {.name = "probe",
         .device = device_,
         .access = {write(vars_[k_load_vars])},
         .priority = priority,
         .capturable = true},
        [word, value](Queue queue) { bench::launch_publish(queue.stream(), word, value); });
    engine_.wait(vars_[k_load_vars]);
    spin_until(word_[0], value_);
    const double taken = microseconds_since(start);
    engine_.wait_all();
    return taken;
  }

 private:
  Device device_;
  int blocks_;
  PinnedArray<std::uint64_t> word_{1};
  Engine engine_;
  std::vector<Var> vars_;
  std::uint64_t value_ = 0;
};

}  // namespace

void urgent(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  UrgentByHand by_hand(bench.device());
  std::vector<Probe> probes{{"raw-stream-priorities", [&] { return by_hand.read(); }}};
  std::deque<UrgentTasks> engines;
  for (const LaunchMode launch : bench.launches()) {
    UrgentTasks& one = engines.emplace_back(bench.device(), launch);
    const std::string name = message("engine-", to_string(launch));
    probes.push_back({name + "-urgent", [&one] { return one.read(Priority::urgent); }});
    probes.push_back({name + "-normal", [&one] { return one.read(Priority::normal); }});
  }
  take_samples(report, "urgent-under-load", settings.samples, probes);
}

}  // namespace gpu_tasks
