#pragma once

// Batch norm on a GPU: statistics by channel_reduce, then one pass over the elements.
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/norm/kernels.h>
