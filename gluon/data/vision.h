#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/transform.h>

namespace sluice::gluon::data::vision {

/// Which image files to read.
struct ImageFilesOptions {
  std::string root = {};  // folder of the files; "" = $SLUICE_DATA, or else the dataset's own place
  bool train = true;      // the 60,000 training images, otherwise the 10,000 for validation
};

/// Images and labels in MNIST's four files, `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with
/// `t10k`, gzipped (".gz") or plain: data uint8 (H, W, 1), label int32, as in Gluon. The images stay in host memory
/// as bytes; copies share them.
class SLUICE_API MNIST : public Transformable<MNIST> {
 public:
  /// Without a root it looks in $SLUICE_DATA. Throws FileError that names the file and says what is wrong: missing,
  /// truncated, foreign, images and labels of different number, labels above 9, bytes after the end; and the
  /// variable, where that named the folder.
  explicit MNIST(const ImageFilesOptions& options = {});

  std::int64_t size() const;
  ArraySpec data_spec() const;
  ArraySpec label_spec() const { return {.shape = {}, .dtype = int32}; }
  void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const;
  const void* data_row(std::int64_t index) const;
  void read_labels(std::span<const std::int64_t> indices, const TensorView& label) const;

 protected:
  MNIST(const ImageFilesOptions& options, const std::string& default_root);

 private:
  struct Images;
  static std::shared_ptr<const Images> read_images(const std::filesystem::path& folder, const std::string& stem);
  std::shared_ptr<const Images> images_;
};

/// Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): MNIST's files with clothes. Without a root and without
/// $SLUICE_DATA it reads the files of Debian's package dataset-fashion-mnist.
class SLUICE_API FashionMNIST : public MNIST {
 public:
  explicit FashionMNIST(const ImageFilesOptions& options = {});
};

}  // namespace sluice::gluon::data::vision
