#include <cstdint>
#include <fstream>
#include <map>

#include <sluice/engine/error.h>
#include <sluice/gluon/formats/formats.h>
#include <sluice/ndarray/file.h>

namespace sluice::gluon::formats {

namespace {

enum class Format : std::uint8_t { npz, mxnet, safetensors };

/// By the first nine bytes: MXNet's number, or a length and the brace of a JSON object.
Format format_of(const std::filesystem::path& path) {
  unsigned char first[9] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(first), sizeof first);
  if (file.gcount() >= 8 && first[0] == 0x12 && first[1] == 0x01 && first[2] == 0 && first[3] == 0)
    return Format::mxnet;
  return file.gcount() == 9 && first[8] == '{' && first[6] == 0 && first[7] == 0 ? Format::safetensors : Format::npz;
}

}  // namespace

NamedArrays load_any(const std::filesystem::path& path, Device device) {
  switch (format_of(path)) {
    case Format::mxnet:
      return load_mxnet(path, device);
    case Format::safetensors:
      return load_safetensors(path, device);
    case Format::npz:
      break;
  }
  NamedArrays arrays;
  for (auto& [name, array] : load(path, device))
    arrays.emplace_back(name, array);
  return arrays;
}

bool keeps_order(const std::filesystem::path& path) {
  return format_of(path) != Format::npz;
}

void save_any(const std::filesystem::path& path, const NamedArrays& arrays) {
  if (path.extension() == ".params")
    return save_mxnet(path, arrays);
  if (path.extension() == ".safetensors")
    return save_safetensors(path, arrays);
  std::map<std::string, NDArray> by_name;
  for (const auto& [name, array] : arrays) {
    require(by_name.emplace(name, array).second, [&, &name = name] {
      return message("save_any: \"", name, "\" is there twice");
    });
  }
  save(path, by_name);
}

}  // namespace sluice::gluon::formats
