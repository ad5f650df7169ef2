// Batches go to the GPU, are worked on and come back, pushed naively: how much of the copying hides behind the work? In
// the same run: work alone, copies alone, one stream, and three streams by hand.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/gpu_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/rounds.h"

namespace {

using namespace sluice;
using bench::Contender;
using bench::GpuArray;
using bench::PinnedArray;

constexpr int k_buffers = 4;
constexpr float k_factor = 1.0001F, k_summand = 0.1F;

struct Sizes {
  std::int64_t n = std::int64_t{1} << 24;  // elements of a batch
  int batches = 20, passes = 60;
};

float input(int buffer, std::int64_t i) {
  return static_cast<float>((i * 31 + buffer * 17) % 1001) / 500.0F - 1.0F;
}

/// What the work makes of every 1009th element of a batch that came from `buffer`.
void check(bench::Report& report, const std::string& what, const float* results, int buffer, const Sizes& sizes) {
  bool good = true;
  for (std::int64_t i = buffer; i < sizes.n; i += 1009) {
    float expected = input(buffer, i);
    for (int pass = 0; pass < sizes.passes; ++pass)
      expected = expected * k_factor + k_summand;
    good = good && std::abs(results[i] - expected) <= 1e-5F * (1.0F + std::abs(expected));
  }
  report.expect(good, message(what, ", buffer ", buffer));
}

class Way {
 public:
  explicit Way(const Sizes& sizes) : sizes_(sizes) {}
  virtual ~Way() = default;
  virtual std::string name() const = 0;
  virtual void push() = 0;
  virtual void finish() = 0;
  /// After one more push, into arrays without results.
  virtual void check_results(bench::Report&) const {}

 protected:
  std::size_t bytes() const { return static_cast<std::size_t>(sizes_.n) * sizeof(float); }
  Sizes sizes_;
};

/// Pinned host arrays and as many GPU arrays.
struct Buffers {
  std::vector<PinnedArray<float>> from, to;
  std::vector<GpuArray<float>> there;

  explicit Buffers(const Sizes& sizes) {
    const auto n = static_cast<std::size_t>(sizes.n);
    for (int buffer = 0; buffer < k_buffers; ++buffer) {
      from.emplace_back(n);
      to.emplace_back(n);
      there.emplace_back(n);
      for (std::int64_t i = 0; i < sizes.n; ++i)
        from.back().data()[i] = input(buffer, i);
    }
  }
  /// All share these arrays: nobody may take the credit for what another one has left there.
  void clear_results() const {
    for (const PinnedArray<float>& results : to)
      std::fill(results.data(), results.data() + results.size(), -1.0F);
  }
  void check_results(bench::Report& report, const std::string& what, const Sizes& sizes) const {
    for (std::size_t i = 0; i < to.size(); ++i)
      check(report, what, to[i].data(), static_cast<int>(i), sizes);
  }
};

enum class Part { everything, work, copy_in, copy_out };

/// By hand, on one stream or on one for each direction and one for the work.
class ByHand final : public Way {
 public:
  ByHand(const Sizes& sizes, const Buffers& buffers, int streams, Part part)
      : Way(sizes), buffers_(buffers), part_(part) {
    for (int i = 0; i < streams; ++i)
      streams_.push_back(bench::new_stream());
    for (int i = 0; i < 3 * k_buffers; ++i)
      events_.push_back(bench::new_event());
  }
  std::string name() const override {
    switch (part_) {
      case Part::work:
        return "raw-work-only";
      case Part::copy_in:
        return "raw-copy-in-only";
      case Part::copy_out:
        return "raw-copy-out-only";
      default:
        return streams_.size() == 1 ? "raw-1-stream" : "raw-3-streams";
    }
  }
  void push() override {
    cudaStream_t in = streams_.front().get(), work = streams_[streams_.size() / 2].get(), out = streams_.back().get();
    const bool all = part_ == Part::everything, ordered = streams_.size() > 1;
    for (int i = 0; i < sizes_.batches; ++i) {
      const auto k = static_cast<std::size_t>(i % k_buffers);
      float* there = buffers_.there[k].data();
      if (ordered && i >= k_buffers)  // the buffer's last results have left it
        bench::check(cudaStreamWaitEvent(in, events_[3 * k + 2].get(), 0), "cudaStreamWaitEvent");
      if (all || part_ == Part::copy_in)
        copy(there, buffers_.from[k].data(), cudaMemcpyHostToDevice, in);
      if (ordered)
        bench::order(in, work, events_[3 * k]);
      if (all || part_ == Part::work)
        do_work(there, work);
      if (ordered)
        bench::order(work, out, events_[3 * k + 1]);
      if (all || part_ == Part::copy_out)
        copy(buffers_.to[k].data(), there, cudaMemcpyDeviceToHost, out);
      if (ordered)
        bench::check(cudaEventRecord(events_[3 * k + 2].get(), out), "cudaEventRecord");
    }
    bench::check(cudaGetLastError(), "kernel launch");
  }
  void finish() override {
    for (const bench::StreamOwner& stream : streams_)
      bench::wait_for(stream.get());
  }
  void check_results(bench::Report& report) const override {
    if (part_ == Part::everything)
      buffers_.check_results(report, name(), sizes_);
  }

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind, cudaStream_t stream) const {
    bench::check(cudaMemcpyAsync(to, from, bytes(), kind, stream), "cudaMemcpyAsync");
  }
  void do_work(float* x, cudaStream_t stream) const {
    for (int pass = 0; pass < sizes_.passes; ++pass) {
      bench::launch_scale(stream, x, x, k_factor, sizes_.n);
      bench::launch_shift(stream, x, x, k_summand, sizes_.n);
    }
  }

  const Buffers& buffers_;
  Part part_;
  std::vector<bench::StreamOwner> streams_;
  std::vector<bench::EventOwner> events_;
};

/// Each copy and each kernel a task.
class Tasks final : public Way {
 public:
  Tasks(const Sizes& sizes, const Buffers& buffers, Device device, LaunchMode launch)
      : Way(sizes),
        name_(message("engine-", to_string(launch))),
        buffers_(buffers),
        device_(device),
        engine_(bench::launched(launch)) {
    for (int i = 0; i < k_buffers; ++i) {
      there_.push_back(engine_.new_var({.home = device}));
      here_.push_back(engine_.new_var());
    }
  }
  std::string name() const override { return name_; }
  void push() override {
    for (int i = 0; i < sizes_.batches; ++i) {
      const auto k = static_cast<std::size_t>(i % k_buffers);
      float* there = buffers_.there[k].data();
      push_copy("copy in", {out(there_[k])}, StreamKind::copy_in, there, buffers_.from[k].data());
      for (int pass = 0; pass < sizes_.passes; ++pass) {
        push_kernel("scale", there_[k], [there, n = sizes_.n](Queue queue) {
          bench::launch_scale(queue.stream(), there, there, k_factor, n);
        });
        push_kernel("shift", there_[k], [there, n = sizes_.n](Queue queue) {
          bench::launch_shift(queue.stream(), there, there, k_summand, n);
        });
      }
      push_copy("copy out", {read(there_[k]), out(here_[k])}, StreamKind::copy_out, buffers_.to[k].data(), there);
    }
  }
  void finish() override { engine_.wait_all(); }
  void check_results(bench::Report& report) const override { buffers_.check_results(report, name_, sizes_); }

 private:
  void push_copy(const TaskName& name, AccessList access, StreamKind kind, void* to, const void* from) {
    engine_.push(
        {.name = name,
         .device = device_,
         .access = std::move(access),
         .stream = kind,
         .capturable = true,
         .bytes = bytes()},
        [to, from, size = bytes()](Queue queue) {
          const auto stream = static_cast<cudaStream_t>(queue.stream());
          bench::check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
        });
  }
  template <class Body>
  void push_kernel(const TaskName& name, const Var& var, Body body) {
    engine_.push(
        {.name = name, .device = device_, .access = {write(var)}, .capturable = true, .bytes = 2 * bytes()}, body);
  }

  std::string name_;
  const Buffers& buffers_;
  Device device_;
  Engine engine_;
  std::vector<Var> there_, here_;
};

/// What a user writes: arrays and operators. Host arrays pinned or plain, or work alone on an array that stays.
class Eager final : public Way {
 public:
  enum class Host { pinned, plain, none };

  Eager(const Sizes& sizes, Device device, LaunchMode launch, Host host)
      : Way(sizes), launch_(launch), host_(host), device_(device), engine_(bench::launched(launch)) {
    const EngineScope scope(engine_);
    const ArrayOptions options{.pinned = host == Host::pinned};
    std::vector<float> values(static_cast<std::size_t>(sizes.n));
    for (int buffer = 0; buffer < (host == Host::none ? 1 : k_buffers); ++buffer) {
      for (std::int64_t i = 0; i < sizes.n; ++i)
        values[static_cast<std::size_t>(i)] = input(buffer, i);
      from_.push_back(empty({sizes.n}, options));
      from_.back().assign(array(values, {sizes.n}));
      to_.push_back(empty({sizes.n}, options));
    }
    if (host == Host::none)
      stays_ = from_[0].to(device);
    engine_.wait_all();
  }
  std::string name() const override {
    const char* const kinds[] = {"-pinned", "-plain", "-work-only"};
    return message("arrays-", to_string(launch_), kinds[static_cast<int>(host_)]);
  }
  void push() override {
    const EngineScope scope(engine_);
    for (int i = 0; i < sizes_.batches; ++i) {
      const auto k = static_cast<std::size_t>(i % k_buffers);
      NDArray x = host_ == Host::none ? stays_ : from_[k].to(device_);
      for (int pass = 0; pass < sizes_.passes; ++pass)
        x = x * k_factor + k_summand;
      if (host_ == Host::none)
        result_ = x;
      else
        copy_into(x, to_[k]);
    }
  }
  void finish() override { engine_.wait_all(); }
  void check_results(bench::Report& report) const override {
    for (std::size_t i = 0; i < to_.size(); ++i) {
      const std::vector<float> values = (host_ == Host::none ? result_ : to_[i]).to_vector<float>();
      check(report, name(), values.data(), static_cast<int>(i), sizes_);
    }
  }

 private:
  LaunchMode launch_;
  Host host_;
  Device device_;
  Engine engine_;
  std::vector<NDArray> from_, to_;
  NDArray stays_, result_;
};

/// How much longer than the work alone the whole takes, in percent.
void add_share(
    bench::Report& report,
    const std::map<std::string, double>& walls,
    const std::string& whole,
    const std::string& work) {
  if (walls.contains(whole) && walls.contains(work))
    report.add("pipeline", whole, "above-work-only", (walls.at(whole) / walls.at(work) - 1) * 100, "%");
}

void pipeline(bench::Report& report, const bench::GpuBench& bench, const Sizes& sizes) {
  const Buffers buffers(sizes);
  std::vector<std::unique_ptr<Way>> ways;
  for (Part part : {Part::work, Part::copy_in, Part::copy_out, Part::everything})
    ways.push_back(std::make_unique<ByHand>(sizes, buffers, 1, part));
  ways.push_back(std::make_unique<ByHand>(sizes, buffers, 3, Part::everything));
  for (const LaunchMode launch : bench.launches()) {
    ways.push_back(std::make_unique<Tasks>(sizes, buffers, bench.device(), launch));
    for (Eager::Host host : {Eager::Host::none, Eager::Host::pinned, Eager::Host::plain})
      ways.push_back(std::make_unique<Eager>(sizes, bench.device(), launch, host));
  }
  std::erase_if(ways, [&](const auto& way) { return !report.wants("pipeline", way->name()); });
  std::vector<Contender> contenders;
  for (const auto& way : ways)
    contenders.push_back({way->name(), [&way] { way->push(); }, [&way] { way->finish(); }});
  const auto walls = bench::compare(report, "pipeline", sizes.batches, "batch", contenders);
  for (const char* whole : {"raw-1-stream", "raw-3-streams"})
    add_share(report, walls, whole, "raw-work-only");
  for (const LaunchMode launch : bench.launches()) {
    add_share(report, walls, message("engine-", to_string(launch)), "raw-work-only");
    for (const char* host : {"-pinned", "-plain"})
      add_share(
          report,
          walls,
          message("arrays-", to_string(launch), host),
          message("arrays-", to_string(launch), "-work-only"));
  }
  for (const auto& way : ways) {
    buffers.clear_results();
    way->push();
    way->finish();
    way->check_results(report);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_pipeline", "Batches to the GPU and back, pushed naively: do copies hide behind work?");
  bench::GpuBench gpu_bench(report);
  Sizes sizes;
  report.flag("--batches", sizes.batches, "Batches").range(k_buffers, 100000);
  report.flag("--passes", sizes.passes, "Passes of the work over a batch").range(1, 10000);
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (!gpu_bench.begin())
    return gpu_bench.exit_code();
  if (report.options().smoke)
    sizes = {.n = 1 << 12, .batches = 6, .passes = 3};
  try {
    pipeline(report, gpu_bench, sizes);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
