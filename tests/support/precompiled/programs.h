// The same for samples and benchmarks, which include what users include.
#include <sluice/sluice.h>

#include "library_headers.h"
