#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/api.h>

namespace samples {

/// Pushes tasks to one GPU. What they read and write says which may run side by side; with `one_stream` each of them
/// also writes one common Var, so that they run one after the other: what a program on a single stream does.
class Pusher {
 public:
  Pusher(sluice::Engine& engine, sluice::Device device, bool one_stream)
      : engine_(engine), device_(device), one_stream_(one_stream), common_(engine.new_var({.home = device})) {}

  sluice::Engine& engine() const noexcept { return engine_; }
  sluice::Device device() const noexcept { return device_; }

  template <class Body>
  void operator()(
      const sluice::TaskName& name,
      sluice::AccessList access,
      Body body,
      sluice::StreamKind kind = sluice::StreamKind::compute) const {
    if (one_stream_)
      access.push_back(write(common_));
    engine_.push(
        {.name = name, .device = device_, .access = std::move(access), .stream = kind, .capturable = true},
        std::move(body));
  }

 private:
  sluice::Engine& engine_;
  sluice::Device device_;
  bool one_stream_;
  sluice::Var common_;
};

/// How much there is to do.
struct Load {
  int turns = 20000;    // of a small kernel, which fills a small part of the GPU
  int rounds = 20;      // of the fork-join, and kernels of a chain
  int batches = 24;     // of the pipeline
  int batch = 1 << 22;  // words of a batch
};

/// A program of tasks with memory of its own; every run of it gives the same results.
class Program {
 public:
  virtual ~Program() = default;
  virtual std::string name() const = 0;
  virtual void push(const Pusher& pusher) = 0;
  /// After a run: true if every result is what the host says.
  virtual bool right() const = 0;
};

/// One array, eight branches that each make something of it, and a join of all: again and again.
std::unique_ptr<Program> make_fork_join(const Pusher& pusher, const Load& load);
/// Batches travel to the GPU, are worked on and travel back: copies in, kernels and copies out overlap.
std::unique_ptr<Program> make_pipeline(const Pusher& pusher, const Load& load);
/// Thirty-two chains of small kernels that have nothing to do with one another.
std::unique_ptr<Program> make_chains(const Pusher& pusher, const Load& load);

}  // namespace samples
