#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/images_in_memory.h>
#include <sluice/gluon/data/vision.h>

namespace sluice::gluon::data::vision {

/// Which of CIFAR-100's labels.
struct Cifar100Options {
  std::string root = {};    // as in ImageFilesOptions
  bool train = true;        // the 50,000 training images, otherwise the 10,000 for validation
  bool fine_label = false;  // one of 100 classes, otherwise one of 20 groups of them
};

/// Small colour images in the files of CIFAR's "binary version" (Krizhevsky, 2009): labels of a byte each and the
/// image, red, green, blue. Data is uint8 (32, 32, 3), label int32, as in Gluon. The images stay in host memory as
/// bytes; copies share them.
class SLUICE_API CifarImages : public ImagesInMemory {
 protected:
  /// How a file is made: labels before each image, which of them counts, and the numbers of classes of each.
  struct Layout {
    std::vector<int> classes;
    std::size_t counts = 0;
  };
  CifarImages(const std::vector<std::filesystem::path>& files, const Layout& layout)
      : ImagesInMemory(read_images(files, layout)) {}
  /// The files of these names in `root` (or $SLUICE_DATA), there or in its folder `folder`, plain or gzipped.
  static std::vector<std::filesystem::path> find_files(
      const std::string& root, const std::string& folder, const std::vector<std::string>& names);

 private:
  static std::shared_ptr<const Content> read_images(
      const std::vector<std::filesystem::path>& files, const Layout& layout);
};

/// CIFAR-10: `data_batch_1.bin` to `data_batch_5.bin` or `test_batch.bin`, in the folder or in `cifar-10-batches-bin`
/// there.
class SLUICE_API CIFAR10 : public CifarImages, public Transformable<CIFAR10> {
 public:
  /// Without a root it looks in $SLUICE_DATA. Throws FileError that names the file and says what is wrong: missing, not
  /// a whole number of images, none, a label that cannot be.
  explicit CIFAR10(const ImageFilesOptions& options = {});
};

/// CIFAR-100: `train.bin` or `test.bin`, in the folder or in `cifar-100-binary` there.
class SLUICE_API CIFAR100 : public CifarImages, public Transformable<CIFAR100> {
 public:
  /// The same.
  explicit CIFAR100(const Cifar100Options& options = {});
};

}  // namespace sluice::gluon::data::vision
