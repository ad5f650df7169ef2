#pragma once

#include <sluice/engine/error.h>
#include <sluice/engine/source_location.h>

namespace sluice::detail {

/// Adds the line of the push that `error` refuses. One for a layer is left to whoever called the layer.
void locate_push(Error& error, SourceLocation site);

}  // namespace sluice::detail
