// The same for gluon's tests, with all rooms' headers.
#include <sluice/gluon/api.h>

#include "operator_tests.h"
