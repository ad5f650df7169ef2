#include "samples/support/images.h"

#include <cstdlib>

namespace samples {

using namespace sluice;
using gluon::data::vision::FashionMNIST;

namespace {

const std::vector<std::string> k_clothes = {
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};
const std::vector<std::string> k_digits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

std::string place(const std::string& folder) {
  if (!folder.empty())
    return "--data " + folder;
  const char* variable = std::getenv("SLUICE_DATA");
  return variable != nullptr && *variable != '\0' ? message("SLUICE_DATA=", variable)
                                                  : "without --data and SLUICE_DATA";
}

// Other files of MNIST's format may hold anything; what they are called tells.
bool are_clothes(const std::string& folder) {
  const char* variable = std::getenv("SLUICE_DATA");
  const std::string named = !folder.empty() ? folder : variable != nullptr ? variable : "";
  return named.empty() || named.find("fashion") != std::string::npos;
}

}  // namespace

Images open_images(const std::string& folder) {
  try {
    return {
        .training = FashionMNIST({.root = folder, .train = true}),
        .testing = FashionMNIST({.root = folder, .train = false}),
        .classes = are_clothes(folder) ? k_clothes : k_digits};
  } catch (const FileError& error) {
    throw FileError(message(
        place(folder),
        ": ",
        error.message(),
        "\nFashion-MNIST's four files come with Debian's package dataset-fashion-mnist (apt-get install ",
        "dataset-fashion-mnist) or from https://github.com/zalandoresearch/fashion-mnist; --data FOLDER names the ",
        "folder that holds them, and so does SLUICE_DATA."));
  }
}

}  // namespace samples
