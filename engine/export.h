#pragma once

/// Marks what the shared library exports; everything else stays hidden inside it.
#define SLUICE_API __attribute__((visibility("default")))
