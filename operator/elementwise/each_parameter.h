#pragma once

/// SLUICE_EACH_PARAMETER(macro, ((type, name, value), ...)): macro(type, name, value) for each parameter of a row, of
/// which there are at most two; nothing for ().
#define SLUICE_EACH_PARAMETER(macro, parameters) SLUICE_EACH_OF(macro, SLUICE_UNPACKED parameters)
#define SLUICE_UNPACKED(...) __VA_ARGS__
#define SLUICE_EACH_OF(macro, ...) __VA_OPT__(SLUICE_EACH_FIRST(macro, __VA_ARGS__))
#define SLUICE_EACH_FIRST(macro, first, ...) macro first __VA_OPT__(SLUICE_EACH_SECOND(macro, __VA_ARGS__))
#define SLUICE_EACH_SECOND(macro, second) macro second
