#include <sluice/gluon/formats/formats.h>
#include <sluice/ndarray/api.h>
#include <sluice/ndarray/file.h>

#include "tests/fuzz/readers.h"

namespace sluice::fuzz {

namespace {

gluon::formats::NamedArrays some_arrays() {
  return {
      {"weight", arange(0, 6, 1, {.dtype = float32}).reshape({2, 3})},
      {"half", full({4}, 1.5, {.dtype = bfloat16})},
      {"whole", arange(0, 3, 1, {.dtype = int64})},
      {"none", zeros({0, 2})},
      {"scalar", full({}, 2.0)}};
}

void look_at(const gluon::formats::NamedArrays& arrays) {
  for (const auto& [name, array] : arrays)
    array.wait_to_read();
}

Reader npz() {
  const auto write = [](const Path& folder) {
    const auto arrays = some_arrays();
    save(folder / "all.npz", {arrays.begin(), arrays.end()});
    save(folder / "one.npz", {{"x", arrays[0].second}});
    save(folder / "empty.npz", {});
  };
  return {.name = "npz", .ending = ".npz", .write = write, .read = [](const Path& file) {
            for (const auto& [name, array] : load(file))
              array.wait_to_read();
          }};
}

Reader safetensors() {
  const auto write = [](const Path& folder) {
    gluon::formats::save_safetensors(folder / "all.safetensors", some_arrays());
    gluon::formats::save_safetensors(folder / "one.safetensors", {some_arrays()[0]});
  };
  return {.name = "safetensors", .ending = ".safetensors", .write = write, .read = [](const Path& file) {
            look_at(gluon::formats::load_safetensors(file));
          }};
}

Reader mxnet_parameters() {
  const auto write = [](const Path& folder) {
    gluon::formats::save_mxnet(folder / "one.params", {some_arrays()[0]});
    gluon::formats::save_mxnet(folder / "two.params", {some_arrays()[0], some_arrays()[2]});
  };
  return {.name = "mxnet_parameters", .ending = ".params", .write = write, .read = [](const Path& file) {
            look_at(gluon::formats::load_mxnet(file));
          }};
}

}  // namespace

std::vector<Reader> array_readers() {
  return {npz(), safetensors(), mxnet_parameters()};
}

}  // namespace sluice::fuzz
