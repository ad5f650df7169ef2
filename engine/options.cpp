// The names of what can be chosen: the one place where text and enumerators meet.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <sluice/engine/detail/options.h>
#include <sluice/engine/error.h>

namespace sluice {

namespace {

// In the order of the enumerators.
constexpr std::array k_cpu_modes{"pool", "serial", "chaos", "chaos-pool"};
constexpr std::array k_gpu_modes{"stream", "serial"};
constexpr std::array k_launch_modes{"batch", "direct"};
constexpr std::array k_gpu_checks{"end", "each"};
constexpr std::array k_denormals{"keep", "flush"};

template <std::size_t N>
using Names = std::array<const char*, N>;

template <std::size_t N>
std::string none_of(const Names<N>& names) {
  std::string text = " is not one of ";
  for (std::size_t i = 0; i < N; ++i)
    text += (i == 0 ? "" : ", ") + std::string(names[i]);
  return text;
}

template <std::size_t N, class Value>
const char* name_of(const Names<N>& names, Value value) noexcept {
  const auto place = static_cast<std::size_t>(value);
  return place < N ? names[place] : "unknown";
}

template <class Value, std::size_t N>
Value parse(const char* what, const Names<N>& names, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i])
      return static_cast<Value>(i);
  }
  throw ValueError(message(what, " \"", text, "\"", none_of(names)));
}

template <std::size_t N, class Value>
void check(const char* what, const Names<N>& names, Value value) {
  const auto place = static_cast<std::size_t>(value);
  require(place < N, [&] { return message("Engine: ", what, "(", place, ")", none_of(names)); });
}

template <class Value, std::size_t N>
Value chosen(std::optional<Value> program, const char* variable, const Names<N>& names, Value usual) {
  if (program.has_value())
    return *program;
  const char* const said = std::getenv(variable);
  return said == nullptr || *said == '\0' ? usual : parse<Value>(variable, names, said);
}

}  // namespace

const char* to_string(CpuMode mode) noexcept {
  return name_of(k_cpu_modes, mode);
}
const char* to_string(GpuMode mode) noexcept {
  return name_of(k_gpu_modes, mode);
}
const char* to_string(LaunchMode mode) noexcept {
  return name_of(k_launch_modes, mode);
}
const char* to_string(GpuCheck check) noexcept {
  return name_of(k_gpu_checks, check);
}
const char* to_string(Denormals denormals) noexcept {
  return name_of(k_denormals, denormals);
}

CpuMode parse_cpu_mode(std::string_view text) {
  return parse<CpuMode>("CPU mode", k_cpu_modes, text);
}
GpuMode parse_gpu_mode(std::string_view text) {
  return parse<GpuMode>("GPU mode", k_gpu_modes, text);
}
LaunchMode parse_launch_mode(std::string_view text) {
  return parse<LaunchMode>("launch mode", k_launch_modes, text);
}
GpuCheck parse_gpu_check(std::string_view text) {
  return parse<GpuCheck>("GPU check", k_gpu_checks, text);
}
Denormals parse_denormals(std::string_view text) {
  return parse<Denormals>("denormals", k_denormals, text);
}

namespace detail {

void check_modes(const EngineOptions& options) {
  check("cpu_policy = CpuMode", k_cpu_modes, options.cpu_policy);
  check("gpu_policy = GpuMode", k_gpu_modes, options.gpu_policy);
  check("gpu_check = GpuCheck", k_gpu_checks, options.gpu_check);
  if (options.launch.has_value())
    check("launch = LaunchMode", k_launch_modes, *options.launch);
  if (options.denormals.has_value())
    check("denormals = Denormals", k_denormals, *options.denormals);
}

LaunchMode launch_of(const EngineOptions& options) {
  return chosen(options.launch, "SLUICE_LAUNCH", k_launch_modes, LaunchMode::batch);
}

Denormals denormals_of(const EngineOptions& options) {
  return chosen(options.denormals, "SLUICE_DENORMALS", k_denormals, Denormals::flush);
}

}  // namespace detail

}  // namespace sluice
