// The same for gluon's tests, with all rooms' headers.
#include "operator_tests.h"

#include <sluice/gluon/api.h>
