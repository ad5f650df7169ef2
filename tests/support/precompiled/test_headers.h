// The same for tests: see tests/support/catch.h.
#include "library_headers.h"

// Checks without a try of their own: what is thrown in one ends its case, and fails it with the same place and words.
#define CATCH_CONFIG_FAST_COMPILE
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
