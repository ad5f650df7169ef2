// A name that would outlive its text: refused by the compiler. With SLUICE_LASTING the same program is right.
#include <string>

#include <sluice/engine/api.h>

sluice::Task named(const std::string& text) {
#ifdef SLUICE_LASTING
  return {.name = text};
#else
  return {.name = text.c_str()};
#endif
}
