#pragma once

#include <vector>

#include <sluice/operator/operator.h>

// The elementwise operators, for the registry.
namespace sluice::detail {

void list_unary(std::vector<const Operator*>& all);
void list_binary(std::vector<const Operator*>& all);
void list_where(std::vector<const Operator*>& all);
void list_composed(std::vector<const Operator*>& all);

}  // namespace sluice::detail
