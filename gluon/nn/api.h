#pragma once

#include <sluice/gluon/nn/activation.h>
#include <sluice/gluon/nn/attention.h>
#include <sluice/gluon/nn/basic.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/gluon/nn/conv.h>
#include <sluice/gluon/nn/conv1d.h>
#include <sluice/gluon/nn/conv_transpose.h>
#include <sluice/gluon/nn/dense.h>
#include <sluice/gluon/nn/embedding.h>
#include <sluice/gluon/nn/more_pools.h>
#include <sluice/gluon/nn/norm.h>
#include <sluice/gluon/nn/pool.h>
#include <sluice/gluon/nn/rectifiers.h>
#include <sluice/gluon/nn/sequential.h>
#include <sluice/gluon/nn/volume.h>
