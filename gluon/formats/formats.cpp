#include <cstdint>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

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

/// What is none of ours by its first bytes is named, the files that lie beside ones of parameters first of all.
void check_kind(const std::filesystem::path& path) {
  char first[8] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(first, sizeof first);
  const std::string_view text(first, static_cast<std::size_t>(file.gcount()));
  using namespace std::string_view_literals;
  constexpr std::pair<std::string_view, const char*> k_others[] = {
      {"\x89PNG"sv, "a PNG image"},
      {"\xff\xd8\xff"sv, "a JPEG image"},
      {"{"sv, "JSON; the parameters stand in a file beside it"},
      {"\x80\x02"sv, "a pickle of PyTorch's; safetensors.torch.save_file() writes what can be read"},
      {"\x1f\x8b"sv, "compressed by gzip; unpack it"},
  };
  for (const auto& [start, what] : k_others) {
    require<FileError>(!text.starts_with(start), [&, what = what] {
      return message(path.string(), ": is ", what, " (read are .npz, .npy, .safetensors and MXNet's .params)");
    });
  }
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
  check_kind(path);
  NamedArrays arrays;
  for (auto& [name, array] : load(path, device, nullptr, {}))
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
  save(path, by_name, {});
}

}  // namespace sluice::gluon::formats
