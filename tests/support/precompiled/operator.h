// What most files of operators and networks include: parsed once where the build precompiles headers (-Db_pch=true).
// Not the operators' functions: kernels have some of the same names.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
