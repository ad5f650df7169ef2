#include <charconv>
#include <ostream>

#include <sluice/engine/device.h>
#include <sluice/engine/error.h>

namespace sluice {

std::string to_string(Device device) {
  const std::string kind = device.is_cpu()   ? "cpu"
                           : device.is_gpu() ? "gpu"
                                             : "device_" + std::to_string(static_cast<int>(device.kind));
  return kind + "(" + std::to_string(device.index) + ")";
}

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << to_string(device);
}

namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw ValueError(message("device: \"", text, "\" is not one of cpu, gpu, gpu:N, gpu(N)"));
}

constexpr int k_last_device_index = 1023;  // no machine has more devices of a kind

// The number in ":N" or "(N)"; 0 for an empty text, one that no device has for a number that is too large.
int parse_index(std::string_view rest, std::string_view whole) {
  if (rest.empty())
    return 0;
  if (rest.front() == '(' && rest.back() == ')') {
    rest.remove_suffix(1);
  } else if (rest.front() != ':') {
    refuse(whole);
  }
  rest.remove_prefix(1);
  int index = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (error == std::errc::invalid_argument || end != rest.data() + rest.size() || rest.front() == '-')
    refuse(whole);
  const bool fits = error == std::errc() && index <= k_last_device_index;
  return fits ? index : k_last_device_index + 1;
}

}  // namespace

Device parse_device(std::string_view text) {
  const std::string_view kind = text.substr(0, 3);
  if (kind != "cpu" && kind != "gpu")
    refuse(text);
  const int index = parse_index(text.substr(3), text);
  if (kind == "cpu" && index > k_last_device_index)
    refuse(text);
  if (kind == "cpu")
    return cpu(index);
  require<DeviceError>(index <= k_last_device_index && index < num_gpus(), [&] {
    return message("device: ", text, " is not there, this process sees ", num_gpus(), " GPU(s)");
  });
  return gpu(index);
}

}  // namespace sluice
