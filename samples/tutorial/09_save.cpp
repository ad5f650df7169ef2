// Files: parameters for the program that has the class, an exported network for one that has not.
#include <filesystem>
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;
namespace nn = gluon::nn;

nn::Sequential made() {
  nn::Sequential net;
  net.add(nn::Dense(8, {.activation = "relu"}), nn::Dense(3));
  return net;
}

int main() {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "sluice_tutorial";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  const NDArray x = random::normal(0, 1, {2, 5});
  nn::Sequential net = made();
  net.initialize(gluon::init::Xavier());
  const NDArray expected = net(x);

  // Written beside the file and then put in its place: a program that is killed leaves the old one.
  net.save_parameters("net.npz");
  nn::Sequential same = made();
  same.load_parameters("net.npz");
  std::cout << "loaded: " << (all(same(x) == expected).item<bool>() ? "the same" : "another") << "\n";

  net.export_to("net", {x});  // net.json and net.npz
  const auto imported = gluon::SymbolBlock::imports("net.json", {"data"}, "net.npz");
  std::cout << "imported: " << (all(imported(x) == expected).item<bool>() ? "the same" : "another") << "\n";

  // Files that do not fit change nothing and say why.
  nn::Dense other(4, {.in_units = 5});
  try {
    other.load_parameters("net.npz");
  } catch (const Error& error) {
    std::cout << error.what() << "\n";
  }
  std::filesystem::current_path(folder.parent_path());
  std::filesystem::remove_all(folder);
}
