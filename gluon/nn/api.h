#pragma once

#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/gluon/nn/conv.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/norm.h>
#include <sluice/gluon/nn/pool.h>
#include <sluice/gluon/nn/rectifiers.h>
#include <sluice/gluon/nn/sequential.h>
