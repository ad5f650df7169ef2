#pragma once

#include <string>
#include <vector>

#include "tests/engine/model/state.h"

namespace sluice::model {

/// A copy of the protocol with one fault, as mutate.py made it.
struct Mutant {
  Protocol protocol;
  bool equivalent;  // the change cannot be told from outside; mutate.py says so, test_model.cpp says why
};
const std::vector<Mutant>& mutants();
/// Changes that no longer fit the protocol's text.
const std::vector<std::string>& unapplied_mutations();

}  // namespace sluice::model
