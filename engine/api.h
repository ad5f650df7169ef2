#pragma once

// The door of the engine: order and devices; no bytes, no shapes.
#include <sluice/engine/access.h>
#include <sluice/engine/blocking_scope.h>
#include <sluice/engine/closure.h>
#include <sluice/engine/completion.h>
#include <sluice/engine/coroutine.h>
#include <sluice/engine/counters.h>
#include <sluice/engine/device.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/engine/executor.h>
#include <sluice/engine/export.h>
#include <sluice/engine/options.h>
#include <sluice/engine/origin.h>
#include <sluice/engine/parallel.h>
#include <sluice/engine/pending_wait.h>
#include <sluice/engine/position.h>
#include <sluice/engine/queue.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/task.h>
#include <sluice/engine/task_group.h>
#include <sluice/engine/task_name.h>
#include <sluice/engine/trace.h>
#include <sluice/engine/var.h>
#include <sluice/engine/worker_local.h>
