#pragma once

#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>

namespace sluice::detail {

/// Adds to an error on its way to the user where it arose: "at train.cpp:31", and in a block of the user's own the call
/// of that too. Whoever has a line that stands for all that is called meanwhile, a layer of the library, a step, or
/// backward, says it itself: nothing is added to those.
SLUICE_API void locate(Error& error, SourceLocation site);

/// What `body` gives; errors of it are located at `site`.
template <class Body>
decltype(auto) located(SourceLocation site, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    locate(error, site);
    throw;
  }
}

}  // namespace sluice::detail
