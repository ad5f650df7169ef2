// What most files of the layers include: parsed once where the build precompiles headers (-Db_pch=true).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/api.h>
