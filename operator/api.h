#pragma once

// The door of the operator room: the maths. Arithmetic, comparisons and in-place forms of arrays are in here.
#include <sluice/ndarray/api.h>
#include <sluice/operator/attributes.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/graph/file.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/library/autotune.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/matmul/precision.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/pool/pool.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/softmax/softmax.h>
#include <sluice/operator/update/update.h>
#include <sluice/operator/walk/walk.h>
