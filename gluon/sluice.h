#pragma once

/// All of Sluice: `#include <sluice/sluice.h>`.
#include <sluice/gluon/api.h>
