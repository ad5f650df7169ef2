#pragma once

#include <string>

#include <sluice/operator/operator.h>

namespace sluice {

/// The fields of an operator's attributes by name, in order: "axis=1, shape=(2, 3)"; empty for none. The same text
/// means the same values: numbers are written with all their digits.
SLUICE_API std::string to_string(const Attributes& attributes);

}  // namespace sluice
