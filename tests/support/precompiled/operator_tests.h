// The same with the rooms' own headers up to operator, for its tests. These have no guards but `#pragma once`: where a
// compiler took them in twice, `compile` in tests/support/prepare builds without precompiled headers.
#include <sluice/operator/api.h>

#include "test_headers.h"
