#pragma once

#include "tests/bench/support/bench.h"
#include "tests/bench/support/gpu_cuda.h"

// The parts of bench_gpu_tasks.
namespace gpu_tasks {

struct Settings {
  int tasks = 5000;                      // of each graph with kernels, about
  int width = 8, steps = 8, turns = 10;  // of the graphs without kernels, as CUDASTF's program has them
  int samples = 200;                     // of latencies
  int peer_bytes = 256 << 20;            // of a copy between GPUs
};

/// Tiny kernels in five graphs, each a task: direct and batched, beside the same kernels launched by hand.
void kernels(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
/// CUDASTF's graphs of tasks without any work, and its chain of kernels on two arrays.
void empty_tasks(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
void kernel_chain(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
/// How long the host waits for a number that a kernel has just written.
void scalar_read(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
/// How long an urgent kernel waits behind kernels that fill the GPU.
void urgent(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
/// Kernels for two GPUs, pushed by one thread; nothing where there is only one.
void two_gpus(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);
/// Large copies between them.
void peer_copy(sluice::bench::Report& report, const sluice::bench::GpuBench& bench, const Settings& settings);

}  // namespace gpu_tasks
