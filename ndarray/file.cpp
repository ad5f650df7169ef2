#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <vector>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/npy.h>
#include <sluice/ndarray/detail/zip.h>
#include <sluice/ndarray/file.h>

namespace sluice {
namespace {

using detail::NpyHeader;

constexpr std::string_view k_suffix = ".npy";
/// Entry "x.dtype" holds the name of the type of entry "x" where NumPy has no such type.
constexpr std::string_view k_type_suffix = ".dtype";

/// A file beside `path`, renamed to it when complete and removed when not.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), draft_(path) {
    static std::atomic<unsigned> number{0};
    draft_ += ".part-" + std::to_string(::getpid()) + "-" + std::to_string(number.fetch_add(1));
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    std::error_code ignored;
    std::filesystem::remove(draft_, ignored);
  }
  const std::filesystem::path& draft() const noexcept { return draft_; }
  void publish() {
    // To the disk first: after a power cut the name must not stand for a file without its content.
    const int file = ::open(draft_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool kept = file >= 0 && (::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP);
    const int why = errno;
    if (file >= 0)
      ::close(file);
    require<FileError>(kept, [&] { return message(path_.string(), ": cannot be written: ", std::strerror(why)); });
    std::error_code error;
    std::filesystem::rename(draft_, path_, error);
    require<FileError>(!error, [&] { return message(path_.string(), ": cannot be written: ", error.message()); });
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path draft_;
};

void add_array(detail::ZipWriter& zip, const std::string& name, const NDArray& array) {
  const DType dtype = array.dtype();
  std::vector<std::byte> values(static_cast<std::size_t>(array.size()) * size_of(dtype));
  array.read_out(values.data(), dtype, array.size());
  const std::string header = detail::format_npy_header(detail::descr_of(dtype), array.shape());
  zip.add(name + std::string(k_suffix), detail::bytes_of(header), values);
  if (dtype != DType::bfloat16)
    return;
  const std::string type(name_of(dtype));
  zip.add(
      name + std::string(k_type_suffix) + std::string(k_suffix),
      detail::bytes_of(detail::format_npy_header("|S" + std::to_string(type.size()), {})),
      detail::bytes_of(type));
}

void swap_bytes(std::span<std::byte> values, std::size_t item) {
  for (std::size_t at = 0; at < values.size(); at += item)
    std::reverse(
        values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(at + item));
}

/// Values of a file as an array. `values` may be changed.
NDArray array_of(std::vector<std::byte> values, const NpyHeader& header, DType dtype, Device device) {
  if (header.big_endian)
    swap_bytes(values, header.item);
  if (dtype == DType::bool_) {
    for (std::byte& value : values)
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  const std::int64_t n = header.shape.size();
  if (header.fortran_order && header.shape.ndim() > 1 && n > 0) {
    Shape strides = Shape::filled(header.shape.ndim(), 1);
    for (int axis = 1; axis < strides.ndim(); ++axis)
      strides[axis] = strides[axis - 1] * header.shape[axis - 1];
    const Shape packed = contiguous_strides(header.shape);
    std::vector<std::byte> rows(values.size());
    detail::cast_on_cpu(
        detail::plan_strided<2>(header.shape, {&packed, &strides}), rows.data(), dtype, values.data(), dtype);
    values = std::move(rows);
  }
  return from_values(values.data(), dtype, n, header.shape, {.dtype = dtype, .device = device});
}

/// One member, its header read and checked against its size. No values where it has too many axes.
struct Entry {
  NpyHeader header;
  std::vector<std::byte> values;
};

Entry parse_entry(std::span<const std::byte> file) {
  Entry entry;
  entry.header = detail::parse_npy_header(file);
  if (entry.header.has_too_many_axes())
    return entry;
  const std::size_t held = file.size() - entry.header.data_offset;
  const std::size_t due = entry.header.data_size();
  require<FileError>(held == due, [&] {
    return message("its shape ", entry.header.shape, " asks for ", due, " bytes of values, it has ", held);
  });
  entry.values.assign(file.begin() + static_cast<std::ptrdiff_t>(entry.header.data_offset), file.end());
  return entry;
}

bool names_a_type(const NpyHeader& header, std::string_view name) {
  return header.kind == 'S' && header.shape.ndim() == 0 && name.ends_with(k_type_suffix);
}

DType type_of(const NpyHeader& header, const std::string* named) {
  if (named == nullptr)
    return detail::dtype_of_header(header);
  const DType dtype = parse_dtype(*named);
  require<FileError>(dtype == DType::bfloat16 && header.kind == 'u' && header.item == 2, [&] {
    return message("its values of ", header.kind, header.item, " cannot be ", *named);
  });
  return dtype;
}

}  // namespace

void save(const std::filesystem::path& path, const std::map<std::string, NDArray>& arrays, SourceLocation site) {
  detail::located(site, [&] {
    for (const auto& [name, array] : arrays) {
      require<ValueError>(array.defined(), [&] { return message("save: the array \"", name, "\" is undefined"); });
      detail::with_data("save", *array.object());
      require<ValueError>(array.dtype() != DType::bfloat16 || !arrays.contains(name + std::string(k_type_suffix)), [&] {
        return message("save: the type of \"", name, "\" is kept under the name of another array");
      });
    }
    write_whole(path, [&](const std::filesystem::path& draft) {
      detail::ZipWriter zip(draft);
      for (const auto& [name, array] : arrays)
        add_array(zip, name, array);
      zip.finish();
    });
  });
}

void write_whole(
    const std::filesystem::path& path, const std::function<void(const std::filesystem::path& draft)>& write) {
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::status(path, ignored);
  if (std::filesystem::is_other(there))  // a device or a pipe, or a link to one: it is written to, not replaced
    return write(path);
  // A link is kept, and what it leads to is replaced.
  const std::filesystem::path target = std::filesystem::is_symlink(path, ignored) ? canonical(path, ignored) : path;
  NewFile file(target.empty() ? path : target);
  try {
    write(file.draft());
  } catch (const FileError& error) {
    // Nobody but us knows the draft's name.
    const std::string draft = file.draft().string();
    if (!error.message().starts_with(draft))
      throw;
    throw FileError(path.string() + error.message().substr(draft.size()));
  }
  file.publish();
}

namespace {

constexpr std::string_view k_too_many = "more axes than an array can have";

/// The first bytes of a regular file; nothing of what is none, which might wait for a writer.
std::string start_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return {};
  std::string first(9, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  return first;
}

// Of what is no .npz: what it is instead, if that is known, and what reads it.
void refuse_others(const std::filesystem::path& path, std::string_view start) {
  using namespace std::string_view_literals;
  const bool is_mxnet = start.starts_with("\x12\x01\0\0\0\0\0\0"sv);
  const bool is_safetensors = start.size() == 9 && start[8] == '{' && start.substr(4, 4) == "\0\0\0\0"sv;
  require<FileError>(!is_mxnet && !is_safetensors, [&] {
    return message(
        path.string(),
        is_mxnet ? ": holds MXNet's parameters; gluon::formats::load_mxnet()"
                 : ": is a .safetensors; gluon::formats::load_safetensors()",
        " or a block's load_parameters() reads it");
  });
}

NDArray load_npy(const std::filesystem::path& path, Device device) {
  try {
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::filesystem::file_size(path)));
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    require<FileError>(file.good(), [] { return "cannot be read"; });
    Entry entry = parse_entry(bytes);
    require<FileError>(!entry.header.has_too_many_axes(), [] { return message("its array has ", k_too_many); });
    return array_of(std::move(entry.values), entry.header, detail::dtype_of_header(entry.header), device);
  } catch (const FileError& error) {
    throw FileError(message(path.string(), ": ", error.message()));
  } catch (const std::filesystem::filesystem_error& error) {
    throw FileError(message(path.string(), ": ", error.code().message()));
  }
}

// To who asked, or on standard error.
void say_left_out(
    const std::filesystem::path& path, std::vector<std::string> names, std::vector<std::string>* left_out) {
  if (left_out != nullptr) {
    *left_out = std::move(names);
    return;
  }
  for (const std::string& name : names)
    std::fprintf(
        stderr,
        "sluice: %s: member \"%s\" is left out: it has %s.\n",
        path.c_str(),
        name.c_str(),
        std::string(k_too_many).c_str());
}

std::map<std::string, NDArray> loaded(
    const std::filesystem::path& path, Device device, std::vector<std::string>* left_out) {
  const std::string start = start_of(path);
  if (start.starts_with(detail::k_npy_magic))
    return {{path.extension() == k_suffix ? path.stem().string() : path.filename().string(), load_npy(path, device)}};
  refuse_others(path, start);
  detail::ZipReader zip(path);
  std::vector<std::string> too_many_axes;
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> types;
  std::map<std::string, NDArray> arrays;
  std::string about;
  try {
    for (const detail::ZipMember& member : zip.members()) {
      about = member.name;
      require<FileError>(!member.name.ends_with("data.pkl"), [] {
        return "this is a pickle of PyTorch's; in Python safetensors.torch.save_file(model.state_dict(), "
               "\"x.safetensors\") "
               "writes a file that can be read";
      });
      require<FileError>(member.name.ends_with(k_suffix), [] { return "it is no .npy file; this is not a .npz"; });
      const std::string name = member.name.substr(0, member.name.size() - k_suffix.size());
      Entry entry = parse_entry(zip.read(member));
      if (entry.header.has_too_many_axes()) {
        too_many_axes.push_back(name);
        continue;
      }
      if (names_a_type(entry.header, name)) {
        types[name.substr(0, name.size() - k_type_suffix.size())].assign(
            reinterpret_cast<const char*>(entry.values.data()), entry.values.size());
        continue;
      }
      require<FileError>(entries.emplace(name, std::move(entry)).second, [] { return "its name is there twice"; });
    }
    for (auto& [name, entry] : entries) {
      about = name;
      const auto named = types.find(name);
      const DType dtype = type_of(entry.header, named == types.end() ? nullptr : &named->second);
      arrays.emplace(name, array_of(std::move(entry.values), entry.header, dtype, device));
    }
  } catch (const FileError& error) {
    if (error.message().starts_with(path.string()))
      throw;
    zip.fail("member \"" + about + "\": " + error.message());
  } catch (const DTypeError& error) {
    zip.fail("member \"" + about + "\": " + error.message());
  }
  if (arrays.empty() && !too_many_axes.empty())
    zip.fail(message("member \"", too_many_axes.front(), "\": it has ", k_too_many));
  say_left_out(path, std::move(too_many_axes), left_out);
  return arrays;
}

}  // namespace

std::map<std::string, NDArray> load(
    const std::filesystem::path& path, Device device, std::vector<std::string>* left_out, SourceLocation site) {
  return detail::located(site, [&] { return loaded(path, device, left_out); });
}

}  // namespace sluice
