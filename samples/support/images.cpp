#include "samples/support/images.h"

namespace samples {

using namespace sluice;
using gluon::data::vision::FashionMNIST;

namespace {

const std::vector<std::string> k_clothes = {
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};

}  // namespace

Images open_images(const std::string& folder) {
  try {
    return {
        .training = FashionMNIST({.root = folder, .train = true}),
        .testing = FashionMNIST({.root = folder, .train = false}),
        .classes = k_clothes};
  } catch (const FileError& error) {
    throw FileError(message(
        folder.empty() ? "" : "--data " + folder + ": ",
        error.message(),
        "\nFashion-MNIST's four files come with Debian's package dataset-fashion-mnist (apt-get install ",
        "dataset-fashion-mnist) or from https://github.com/zalandoresearch/fashion-mnist; --data FOLDER names the ",
        "folder that holds them, and so does SLUICE_DATA."));
  }
}

}  // namespace samples
