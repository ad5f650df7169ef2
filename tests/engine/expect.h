#pragma once

#include <string>
#include <utility>

#include <sluice/engine/api.h>

#include "tests/support/catch.h"

namespace sluice::test {

/// Fails unless `act` throws an E; hands the caught error to `look`.
template <class E, class Act, class Look>
void expect_error(Act&& act, Look&& look) {
  bool caught = false;
  try {
    act();
  } catch (const E& error) {
    caught = true;
    look(error);
  }
  CHECK(caught);
}

/// The text of the Error that `act` throws; "" if it throws none.
template <class Act>
std::string text_of_error(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace sluice::test
