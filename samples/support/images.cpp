#include "samples/support/images.h"

#include <algorithm>
#include <future>
#include <numeric>
#include <optional>
#include <utility>

namespace samples {

using namespace sluice;
using gluon::data::vision::FashionMNIST;

namespace {

const std::vector<std::string> k_clothes = {
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};
constexpr std::int64_t k_summed_images = 100;

std::string side_of(const FashionMNIST& images) {
  const Shape shape = images.data_spec().shape;
  return message(shape[0], " x ", shape[1]);
}

FashionMNIST open_one(const std::string& folder, bool train) {
  FashionMNIST images({.root = folder, .train = train});
  require<FileError>(images.size() > 0, [&] {
    return message("the file ", train ? "train" : "t10k", "-images-idx3-ubyte holds no image");
  });
  return images;
}

Images open_all(const std::string& folder, bool with_training) {
  auto testing = std::async(std::launch::async, open_one, folder, false);
  std::optional<FashionMNIST> training;
  if (with_training)
    training = open_one(folder, true);
  Images images{.training = std::move(training), .testing = testing.get(), .classes = k_clothes};
  require<FileError>(!with_training || images.training->data_spec().shape == images.testing.data_spec().shape, [&] {
    return message(
        "the training images are ", side_of(*images.training), " pixels, the test images ", side_of(images.testing));
  });
  return images;
}

// What an error says, under the flag that the user gave; the error may begin with the folder's name itself.
std::string named_once(const std::string& folder, const std::string& said) {
  if (folder.empty())
    return said;
  const std::size_t rest = said.starts_with(folder) ? said.find_first_not_of("/: ", folder.size()) : 0;
  return "--data " + folder + ": " + said.substr(std::min(rest, said.size()));
}

}  // namespace

Images open_images(const std::string& folder, bool with_training) {
  try {
    return open_all(folder, with_training);
  } catch (const FileError& error) {
    throw FileError(message(
        named_once(folder, error.message()),
        "\nFashion-MNIST's four files come with Debian's package dataset-fashion-mnist (apt-get install ",
        "dataset-fashion-mnist) or from https://github.com/zalandoresearch/fashion-mnist; --data FOLDER names the ",
        "folder that holds them, and so does SLUICE_DATA."));
  }
}

std::uint64_t checksum(const FashionMNIST& images) {
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a
  const auto take = [&](const void* from, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i)
      sum = (sum ^ static_cast<const std::uint8_t*>(from)[i]) * 1099511628211U;
  };
  const std::int64_t image_bytes = images.data_spec().shape.size();
  for (std::int64_t i = 0; i < std::min(images.size(), k_summed_images); ++i)
    take(images.data_row(i), image_bytes);
  std::vector<std::int64_t> all(static_cast<std::size_t>(images.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::vector<std::int32_t> labels(all.size());
  images.read_labels(all, {.data = labels.data(), .shape = {images.size()}, .size = images.size()});
  take(labels.data(), images.size() * static_cast<std::int64_t>(sizeof(std::int32_t)));
  return sum;
}

}  // namespace samples
