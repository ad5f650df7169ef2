#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/sample.h>

/// How the samples of a batch become its arrays, where they do not have one shape. A batchify function takes the
/// samples and gives the batch's arrays; Stack, Pad and Append, given whole samples, treat each of their arrays alike.
namespace sluice::gluon::data::batchify {

using Samples = std::span<const Sample>;
using Fields = std::span<const HostArray>;  // one array of each sample

/// Samples to the arrays of a batch: DataLoaderOptions::batchify.
using Function = std::function<std::vector<HostArray>(Samples)>;
/// One array of each sample to arrays of a batch.
using FieldFunction = std::function<std::vector<HostArray>(Fields)>;

/// Calls a function for each of the samples' arrays. Throws ShapeError where samples have different numbers of them, or
/// where there are `expected` and they have another.
SLUICE_API std::vector<HostArray> for_each_field(Samples samples, std::span<const FieldFunction> functions);

/// Arrays of one shape and type one after the other: (n, ...). Throws ShapeError or DTypeError for others.
class SLUICE_API Stack {
 public:
  std::vector<HostArray> operator()(Fields arrays) const;
  std::vector<HostArray> operator()(Samples samples) const;
};

/// How Pad fills up.
struct PadOptions {
  double value = 0;
  /// Extents become multiples of it.
  std::int64_t round_to = 1;
  /// One more array (n,) of int32, right behind: how long each was along its first axis.
  bool lengths = false;
};

/// Arrays of one type and number of axes, each filled up at its ends to the largest extents of all: (n, ...).
class SLUICE_API Pad {
 public:
  /// Throws ValueError for a round_to below 1.
  explicit Pad(const PadOptions& options = {});
  /// Throws DTypeError for arrays of several types, ShapeError for arrays of several numbers of axes (of none where
  /// lengths are asked for), ValueError for a value that the type does not hold.
  std::vector<HostArray> operator()(Fields arrays) const;
  std::vector<HostArray> operator()(Samples samples) const;

 private:
  PadOptions options_;
};

/// Each sample's array by itself, as an array (1, ...) of the batch.
class SLUICE_API Append {
 public:
  std::vector<HostArray> operator()(Fields arrays) const;
  std::vector<HostArray> operator()(Samples samples) const;
};

/// A function for each of the samples' arrays: Group(Pad({.lengths = true}), Stack()).
class SLUICE_API Group {
 public:
  template <class... Fs>
  explicit Group(Fs... functions) : functions_{FieldFunction(std::move(functions))...} {
    static_assert(sizeof...(Fs) > 0, "Group needs a function");
  }
  /// Throws ShapeError for samples that have not as many arrays as there are functions, and what these throw.
  std::vector<HostArray> operator()(Samples samples) const { return for_each_field(samples, functions_); }

 private:
  std::vector<FieldFunction> functions_;
};

}  // namespace sluice::gluon::data::batchify
