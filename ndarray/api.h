#pragma once

// The door of ndarray: shaped bytes, views, the tape; no maths beyond fill and copy.
#include <sluice/engine/api.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/dlpack.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/file.h>
#include <sluice/ndarray/gpu_support.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/scalar.h>
#include <sluice/ndarray/shape.h>
#include <sluice/storage/api.h>
