// The same for tests: see tests/support/catch.h.
#include "library_headers.h"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
