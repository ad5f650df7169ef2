#pragma once

#include <string>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/source_location.h>

namespace sluice::gluon::detail {

/// What `body` gives; errors of it say in which call of the user's they arose: "in `what`, called at train.cpp:31".
template <class Body>
decltype(auto) called(const std::string& what, SourceLocation site, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.locate(message("in ", what, ", called at ", site.file, ":", site.line));
    throw;
  }
}

}  // namespace sluice::gluon::detail
