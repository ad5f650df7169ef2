#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/images_in_memory.h>
#include <sluice/gluon/data/transform.h>

namespace sluice::gluon::data::vision {

/// Which image files to read.
struct ImageFilesOptions {
  std::string root = {};  // folder of the files; "" = $SLUICE_DATA, or else the dataset's own place
  bool train = true;      // the 60,000 training images, otherwise the 10,000 for validation
};

/// Images and labels in MNIST's four files, `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with
/// `t10k`, gzipped (".gz") or plain: data uint8 (H, W, 1), label int32, as in Gluon.
class SLUICE_API MNIST : public ImagesInMemory, public Transformable<MNIST> {
 public:
  /// Without a root it looks in $SLUICE_DATA. Throws FileError that names the file and says what is wrong: missing,
  /// truncated, foreign, images and labels of different number, labels above 9, bytes after the end; and the
  /// variable, where that named the folder.
  explicit MNIST(const ImageFilesOptions& options = {});

 protected:
  MNIST(const ImageFilesOptions& options, const std::string& default_root);

 private:
  static std::shared_ptr<const Content> find_and_read(
      const ImageFilesOptions& options, const std::string& default_root);
  static std::shared_ptr<const Content> read_images(const std::filesystem::path& folder, const std::string& stem);
};

/// Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): MNIST's files with clothes. Without a root and without
/// $SLUICE_DATA it reads the files of Debian's package dataset-fashion-mnist.
class SLUICE_API FashionMNIST : public MNIST {
 public:
  explicit FashionMNIST(const ImageFilesOptions& options = {});
};

}  // namespace sluice::gluon::data::vision
