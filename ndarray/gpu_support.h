#pragma once

#include <string>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>

namespace sluice {

/// Why arrays cannot live on `device` in this build of Sluice, in a sentence; "" if they can. A GPU may be refused
/// because it is not there, or because the build has no code for it; the sentence then names its capability, those
/// built for, and what to configure. For programs that choose a device; making an array there throws the same as
/// DeviceError. The first call for a GPU loads a kernel on it. Throws CudaError where CUDA itself fails.
SLUICE_API std::string why_unusable(Device device);

}  // namespace sluice
