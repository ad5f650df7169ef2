// What nearly every test of the engine includes: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/support/catch.h"
