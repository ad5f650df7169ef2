#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/recordio.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/image/image.h>

namespace sluice::gluon::data::vision {

/// Of ImageFolderDataset.
struct ImageFolderOptions {
  image::DecodeOptions decode = {};
  /// Endings of the files that count, in small letters; others are passed over.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png"};
};

/// Images in folders by class, ROOT/CLASS/FILE: data uint8 (H, W, C), each of its own size; label int32, the class's
/// place in the sorted names of the folders. Within a class files are sorted by name. Files are read and decoded when
/// their sample is; copies of a dataset share its list.
class SLUICE_API ImageFolderDataset : public Transformable<ImageFolderDataset> {
 public:
  /// One file and its class.
  struct Item {
    std::filesystem::path path = {};
    std::int32_t label = 0;
  };

  /// Throws FileError where `root` is no folder, cannot be read or has no image of any class.
  explicit ImageFolderDataset(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  std::int64_t size() const;
  /// Throws FileError naming the file, as image::ImageDecoder does.
  Sample sample_at(std::int64_t index) const;
  /// The same into a batch of one, without an array between. Throws ShapeError where it does not fit, too.
  void write_sample(std::int64_t index, data::detail::Views batch_of_one) const;
  /// Names of the classes, sorted: label i is synsets()[i].
  const std::vector<std::string>& synsets() const;
  const std::vector<Item>& items() const;

 private:
  struct List;
  std::shared_ptr<const List> list_;
};

/// An image file and what is said of it.
struct ImageListItem {
  std::vector<float> label = {};
  std::string path = {};
};

/// Images of a list: data uint8 (H, W, C), each of its own size. If every item has one label, a whole number that a
/// class could have, labels are int32; otherwise float32, of shape () where every item has one label, else (n).
class SLUICE_API ImageListDataset : public Transformable<ImageListDataset> {
 public:
  /// A list as MXNet's im2rec writes it: lines of a number, labels and a path below `root`, parted by tabs. Throws
  /// FileError, with the line, for a file that is missing, empty or different.
  ImageListDataset(
      const std::filesystem::path& root, const std::filesystem::path& list, const image::DecodeOptions& decode = {});
  /// Throws ValueError for an empty list and items with none or different numbers of labels.
  ImageListDataset(
      const std::filesystem::path& root, std::vector<ImageListItem> items, const image::DecodeOptions& decode = {});

  std::int64_t size() const;
  /// Throws FileError naming the file, as image::ImageDecoder does.
  Sample sample_at(std::int64_t index) const;
  /// The same into a batch of one, without an array between. Throws ShapeError where it does not fit, too.
  void write_sample(std::int64_t index, data::detail::Views batch_of_one) const;
  const std::vector<ImageListItem>& items() const;

 private:
  struct List;
  std::shared_ptr<const List> list_;
};

/// What the labels of a record file are: classes, int32 of shape (), or numbers, float32 of shape (). Records with
/// several labels have float32 (n) in either case.
enum class RecordLabels : std::uint8_t { classes, numbers };

/// Images in a record file, as MXNet's im2rec packs them: data uint8 (H, W, C), each of its own size.
class SLUICE_API ImageRecordDataset : public Transformable<ImageRecordDataset> {
 public:
  /// Records are in the order of RecordFileDataset. Throws FileError.
  explicit ImageRecordDataset(
      const std::filesystem::path& path,
      const image::DecodeOptions& decode = {},
      RecordLabels labels = RecordLabels::classes);

  std::int64_t size() const { return records_.size(); }
  /// Throws FileError naming file and record, UnsupportedError for a label that is no class where classes are wanted.
  Sample sample_at(std::int64_t index) const;
  /// The same into a batch of one, without an array between. Throws ShapeError where it does not fit, too.
  void write_sample(std::int64_t index, data::detail::Views batch_of_one) const;

 private:
  template <class Take>
  auto with_record(std::int64_t index, const Take& take) const;

  RecordFileDataset records_;
  std::string name_;
  image::DecodeOptions decode_;
  RecordLabels labels_;
};

}  // namespace sluice::gluon::data::vision
