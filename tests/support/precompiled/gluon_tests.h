// What nearly every test of networks includes: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <sluice/gluon/api.h>

#include "tests/support/catch.h"
