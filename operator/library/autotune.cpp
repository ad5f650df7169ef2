#include <atomic>
#include <cstdlib>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/operator/library/autotune.h>

namespace sluice {
namespace {

constexpr unsigned char k_not_set = 255;
std::atomic<unsigned char> chosen{k_not_set};

Autotune from_environment() {
  const char* const text = std::getenv("SLUICE_AUTOTUNE");
  const std::string_view name = text == nullptr ? "" : text;
  if (name == "first_use")
    return Autotune::first_use;
  if (name == "exhaustive")
    return Autotune::exhaustive;
  require<ValueError>(name.empty() || name == "off", [&] {
    return message("SLUICE_AUTOTUNE: \"", name, "\" is none of \"off\", \"first_use\" and \"exhaustive\"");
  });
  return Autotune::off;
}

}  // namespace

void set_autotune(Autotune how) noexcept {
  chosen.store(static_cast<unsigned char>(how), std::memory_order_relaxed);
}

Autotune autotune() {
  unsigned char now = chosen.load(std::memory_order_relaxed);
  if (now != k_not_set)
    return static_cast<Autotune>(now);
  const Autotune said = from_environment();
  // A program that sets it meanwhile wins.
  return chosen.compare_exchange_strong(now, static_cast<unsigned char>(said), std::memory_order_relaxed)
             ? said
             : static_cast<Autotune>(now);
}

}  // namespace sluice
