#pragma once

#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {

/// Has an OpenBLAS that does not know this processor compute as on one with the same vectors. It knows processors by
/// their numbers, and takes one with AVX2 that is newer than itself for the oldest: half as fast and slower. Nothing
/// where OPENBLAS_CORETYPE says what it is to be. Before its first call.
void choose_openblas_kernels(const SharedLibrary& openblas);

}  // namespace sluice::detail
