#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/order/search.h>

namespace sluice::detail {

namespace {

// Where there are more values than sorted elements: the keys of these are made once, and steps are no branches, for
// half of them would be guessed wrong.
template <class U>
void find_among_keys(const Search<U>& search, std::int64_t values) {
  std::vector<U> keys(static_cast<std::size_t>(values / search.each * search.n));
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = search.rule.key(load_bits<U>(search.sorted, search.bytes, static_cast<std::int64_t>(i)), true);
  const auto find = [&](const U* row, std::int64_t i) {
    const U key = search.rule.key(load_bits<U>(search.values, search.bytes, i), true);
    const auto before = [&](U other) { return static_cast<std::int64_t>(search.right ? other <= key : other < key); };
    std::int64_t low = 0, count = search.n;
    for (; count > 1; count -= count / 2)
      low += -before(row[low + count / 2 - 1]) & (count / 2);
    search.places[i] = low + (count == 1 ? before(row[low]) : 0);
  };
  parallel_for(values, 1024, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / search.each, last = std::min(end, (row + 1) * search.each);
      for (; begin < last; ++begin)
        find(keys.data() + row * search.n, begin);
    }
  });
}

}  // namespace

void searchsorted_cpu(const KernelCall& call) {
  by_key(call.inputs[0].dtype, [&]<class U>() {
    const Search<U> search(call);
    const std::int64_t values = call.outputs[0].size;
    if (values > 0 && search.n <= search.each)
      return find_among_keys(search, values);
    parallel_for(values, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        search.find(i);
    });
  });
}

}  // namespace sluice::detail
