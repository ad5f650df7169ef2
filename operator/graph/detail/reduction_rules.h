#pragma once

#include <cstdint>
#include <vector>

#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/reduce/calls.h>
#include <sluice/operator/reduce/form.h>

// Which reductions are worth taking in what gives their terms. Bits are the same either way; rules are about time.
namespace sluice::graph {

/// A reduction, and the program whose first result it takes in; what the program gives beside it others read.
struct Joining {
  const fused::Program& program;
  const sluice::detail::ReductionCall& reduction;
  ArraySpec terms;
  std::vector<ArraySpec> inputs;  // of the program
  bool are_kept = false;          // the terms are written down too: the program names them twice
};

/// On a CPU: what others read stays apart, and terms have to come in long runs of neighbours, since tiles are made of
/// them.
bool joins_on_cpu(const Joining& joining);

/// What there is to do of a chain on a GPU.
struct ChainWork {
  double elements = 0;
  double instructions = 0;                  // an element
  double read = 0, terms = 0, written = 0;  // bytes: of its inputs, of the terms, of what others read
  bool are_kept = false;                    // the terms are among the last
};
ChainWork work_of(const Joining& joining);

/// How well a reduction's kernel uses a GPU: how much of it, and how many lanes for one that has work.
struct KernelUse {
  double share = 1, waste = 1;
};
KernelUse use_of(const sluice::detail::ReduceForm& form, const sluice::detail::ReducePlan& plan, std::size_t bytes);

/// Nanoseconds beside those that launches take: of the chain alone, as wide as the GPU, and of the reduction, with the
/// chain in it or not.
double chain_ns(const ChainWork& work);
double joined_ns(const ChainWork& work, const KernelUse& use);
double reduction_ns(const ChainWork& work, const KernelUse& use);

/// On a GPU, whether the reduction with the chain in it takes no longer than both one after the other. What others read
/// comes with its end: then it has to take no longer than the chain alone, for the reduction ran beside them.
bool joins_on_gpu(const ChainWork& work, const KernelUse& use);
/// The same of a reduction whose terms come of a part of a program while `rest`, which reads some of the inputs again,
/// stays a kernel by itself; `whole` was the one of both.
bool parts_on_gpu(const ChainWork& part, const ChainWork& rest, const ChainWork& whole, const KernelUse& use);

/// By the device of the terms.
bool is_worth_joining(const Joining& joining);
bool is_worth_parting(const Joining& part, const ChainWork& rest, const ChainWork& whole);

}  // namespace sluice::graph
