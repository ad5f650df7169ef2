// What nearly every test of operators includes: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
