#include <cstdint>
#include <cstdlib>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/byte_source.h>
#include <sluice/gluon/data/cifar.h>

namespace sluice::gluon::data::vision {

namespace {

constexpr std::size_t k_side = 32, k_channels = 3, k_plane = k_side * k_side, k_pixels = k_plane * k_channels;

// Planes of colours to pixels of three.
void interleave(const std::uint8_t* planes, std::uint8_t* pixels) {
  for (std::size_t i = 0; i < k_plane; ++i) {
    for (std::size_t c = 0; c < k_channels; ++c)
      pixels[i * k_channels + c] = planes[c * k_plane + i];
  }
}

}  // namespace

std::shared_ptr<const CifarImages::Content> CifarImages::read_images(
    const std::vector<std::filesystem::path>& files, const Layout& layout) {
  auto images = std::make_shared<Content>();
  images->shape = {k_side, k_side, k_channels};
  const std::size_t labels = layout.classes.size(), record = labels + k_pixels;
  std::vector<std::uint8_t> bytes(record);
  for (const std::filesystem::path& path : files) {
    data::detail::ByteSource source(path);
    std::size_t image = 0;
    for (;; ++image) {
      const std::size_t got = source.read(bytes.data(), record);
      if (got == 0)
        break;
      require<FileError>(got == record, [&] {
        return message(path.string(), ": truncated: image ", image, " has ", got, " bytes of ", record);
      });
      for (std::size_t i = 0; i < labels; ++i) {
        require<FileError>(bytes[i] < layout.classes[i], [&] {
          return message(
              path.string(), ": label ", int{bytes[i]}, " of image ", image, " is above ", layout.classes[i] - 1);
        });
      }
      images->labels.push_back(bytes[layout.counts]);
      images->pixels.resize(images->pixels.size() + k_pixels);
      interleave(bytes.data() + labels, images->pixels.data() + images->pixels.size() - k_pixels);
    }
    require<FileError>(image > 0, [&] { return message(path.string(), ": holds no images"); });
  }
  return images;
}

std::vector<std::filesystem::path> CifarImages::find_files(
    const std::string& root, const std::string& folder, const std::vector<std::string>& names) {
  const char* const variable = root.empty() ? std::getenv("SLUICE_DATA") : nullptr;
  const std::filesystem::path place = root.empty() && variable != nullptr ? variable : root;
  require<FileError>(!place.empty(), [&] {
    return message(folder, ": say where its files are, by options.root or by the environment variable SLUICE_DATA");
  });
  std::error_code ignored;
  const std::string named_by = variable == nullptr ? "" : message("SLUICE_DATA=", variable, ": ");
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) {
    const std::size_t before = files.size();
    for (const std::filesystem::path& candidate :
         {place / name, place / folder / name, place / (name + ".gz"), place / folder / (name + ".gz")}) {
      if (files.size() == before && std::filesystem::exists(candidate, ignored))
        files.push_back(candidate);
    }
    require<FileError>(files.size() > before, [&] {
      return message(
          named_by, place.string(), ": lacks the file ", name, " (it is not in its folder ", folder, " either)");
    });
  }
  return files;
}

CIFAR10::CIFAR10(const ImageFilesOptions& options)
    : CifarImages(
          find_files(
              options.root,
              "cifar-10-batches-bin",
              options.train ? std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"}
                            : std::vector<std::string>{"test_batch.bin"}),
          {.classes = {10}}) {}

CIFAR100::CIFAR100(const Cifar100Options& options)
    : CifarImages(
          find_files(options.root, "cifar-100-binary", {options.train ? "train.bin" : "test.bin"}),
          {.classes = {20, 100}, .counts = options.fine_label ? std::size_t{1} : std::size_t{0}}) {}

}  // namespace sluice::gluon::data::vision
