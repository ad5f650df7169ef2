#pragma once

#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>

namespace sluice::fused {

/// Runs a program over the shape that its inputs stretch to: one output a value that it names, of that shape.
extern SLUICE_API const Operator k_fused;

/// Whether there is a kernel for that device: graphs keep single calls elsewhere.
bool runs_on(Device device);
/// Makes the kernel of a program for a device where it is compiled: some tenths of a second, unless it is kept from
/// before. Who makes plans calls it, since nothing is compiled while a graph is captured. "" if the program runs as one
/// kernel, else why its calls run one by one; a program that the compiler refuses is named on standard error too, once.
/// Any thread may call it.
std::string prepare(const Attributes& attributes, Device device);

/// What the program gives of such inputs, in the name of operator `op`. Throws ValueError, DTypeError, ShapeError for
/// inputs that it does not take.
Specs specs_of(const Program& program, std::span<const ArraySpec> inputs, const char* op);

/// The names of its calls, "multiply, add, relu".
std::string names_of_calls(const Program& program);
/// The program in terms of its surroundings' names: "t0 = multiply(%0, @1); %5 = relu(t0)".
std::string to_text(const Program& program, std::span<const std::string> inputs, std::span<const std::string> outputs);

// The kernel, and what invoke() does where there is none.
void run_on_cpu(const KernelCall& call);
Arrays compose(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

}  // namespace sluice::fused
