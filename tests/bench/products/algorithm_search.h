#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/ndarray/dtype.h>

namespace sluice::bench {

/// `batch` products of (m, k) by (k, n); `right` is stored transposed where `turned`.
struct ProductShape {
  std::int64_t batch, m, n, k;
  bool turned = false;
};

/// What cuBLASLt can do for a product on the current GPU, us a product.
struct SearchResult {
  double predicted = 0;    // its first prediction, in a graph of products: what a kernel takes
  double predictions = 0;  // the best of all that it predicts, with sums as Sluice asks for them
  double best = 0;         // the best found
  double in_order = 0;     // the best found with sums as Sluice asks for them
  double eager = 0;        // the best found, called again and again from the host
  double chosen = 0;       // the algorithm that the library under test chose; 0 where it named none
  std::string what;        // its configuration
  int checked = 0, timed = 0;
};

/// Looks for the quickest algorithm of the library itself: all that it predicts, then configurations at random out of
/// all that it lists, then one change at a time of the best ones. It ends when the seconds are over. float32 is TF32.
/// `chosen` is an algorithm's words, or empty; its time and the best one's are taken in turns. Throws Error where
/// cuBLASLt or memory are missing.
SearchResult search_algorithms(
    const ProductShape& shape, DType dtype, double seconds, const std::vector<std::uint64_t>& chosen);

}  // namespace sluice::bench
