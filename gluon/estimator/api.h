#pragma once

#include <sluice/gluon/estimator/batches.h>
#include <sluice/gluon/estimator/checkpoint.h>
#include <sluice/gluon/estimator/early_stopping.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/estimator/handlers.h>
#include <sluice/gluon/estimator/learning_rate_finder.h>
#include <sluice/gluon/estimator/logging.h>
#include <sluice/gluon/estimator/report.h>
#include <sluice/gluon/estimator/report_page.h>
#include <sluice/gluon/estimator/tensorboard.h>
#include <sluice/gluon/estimator/training_state.h>
