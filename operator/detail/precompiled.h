// What most files of the operators include: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/ndarray/api.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
