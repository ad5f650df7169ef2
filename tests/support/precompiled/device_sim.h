// What device files compiled for the host take, beside what stands before each of them anyway.
#include "library_headers.h"
#include "tests/support/device_sim/device.h"
