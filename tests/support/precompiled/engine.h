// What most files of the engine include: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/error.h>
