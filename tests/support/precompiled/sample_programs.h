#include <fmt/format.h>

#include "programs.h"
