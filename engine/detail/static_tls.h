#pragma once

/// Marks thread-local objects on the path of every task: reached at a fixed distance from the thread pointer, not by a
/// call of the loader's at each use (29 calls a task, a fifth of its instructions). The loader then has to find room
/// for all thread-local objects of the library at once; of glibc's 1664 bytes for libraries that dlopen() brings, we
/// may take 1000: tests/embed/embed.py.
///
/// Not so where references are checked for null: GCC takes the flags of the addition that makes the address, and a
/// linker that makes a program may write an instruction in its place that sets none.
#ifdef SLUICE_CHECKS_FOR_NULL
#define SLUICE_STATIC_TLS
#else
#define SLUICE_STATIC_TLS __attribute__((tls_model("initial-exec")))
#endif
