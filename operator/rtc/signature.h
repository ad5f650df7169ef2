#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/ndarray/dtype.h>

namespace sluice::rtc {

/// One parameter of a kernel: an array's elements, or a number.
struct Parameter {
  DType dtype = DType::float32;
  bool array = false;
  bool constant = false;  // elements that are only read
};

/// Reads "const float* x, float* y, int n"; names and __restrict__ may stand there or not, "" is a kernel without
/// parameters. Throws ValueError, which names `kernel` and the parameter, for what is no list of parameters, DTypeError
/// for types that arrays have not.
std::vector<Parameter> parse_signature(std::string_view kernel, std::string_view signature);

/// "const float*".
std::string to_string(const Parameter& parameter);

}  // namespace sluice::rtc
