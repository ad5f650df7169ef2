#pragma once

// The door of storage: bytes; no shapes.
#include <sluice/storage/chunk.h>
#include <sluice/storage/foreign.h>
#include <sluice/storage/pool.h>
#include <sluice/storage/snapshot.h>
#include <sluice/storage/storage.h>
