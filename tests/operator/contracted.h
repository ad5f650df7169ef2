#pragma once

namespace sluice::test {

/// a * b + c as the library's own code has it, where the compiler could make it one instruction.
float product_and_sum(float a, float b, float c) noexcept;
double product_and_sum(double a, double b, double c) noexcept;

}  // namespace sluice::test
