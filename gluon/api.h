#pragma once

// The door to everything: layers and training, on top of the four rooms to its left.
#include <sluice/gluon/block.h>
#include <sluice/gluon/class_metrics.h>
#include <sluice/gluon/data/api.h>
#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/formats/mxnet_symbol.h>
#include <sluice/gluon/init.h>
#include <sluice/gluon/loss.h>
#include <sluice/gluon/losses.h>
#include <sluice/gluon/lr_scheduler.h>
#include <sluice/gluon/metric.h>
#include <sluice/gluon/metrics.h>
#include <sluice/gluon/model_zoo/vision.h>
#include <sluice/gluon/nn/api.h>
#include <sluice/gluon/optimizer.h>
#include <sluice/gluon/optimizers.h>
#include <sluice/gluon/pair_losses.h>
#include <sluice/gluon/parameter.h>
#include <sluice/gluon/predictor.h>
#include <sluice/gluon/rnn/api.h>
#include <sluice/gluon/server.h>
#include <sluice/gluon/symbol_block.h>
#include <sluice/gluon/train_step.h>
#include <sluice/gluon/trainer.h>
#include <sluice/gluon/utils.h>
#include <sluice/operator/api.h>
