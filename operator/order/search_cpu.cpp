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
  // Several at a time, for each step waits for the one before.
  const auto find = [&]<int together>(const U* row, std::int64_t first) {
    U key[together];
    std::int64_t low[together] = {}, count = search.n;
    for (int j = 0; j < together; ++j)
      key[j] = search.rule.key(load_bits<U>(search.values, search.bytes, first + j), true);
    const auto before = [&](U other, U wanted) {
      return static_cast<std::int64_t>(search.right ? other <= wanted : other < wanted);
    };
    for (; count > 1; count -= count / 2) {
      for (int j = 0; j < together; ++j)
        low[j] += -before(row[low[j] + count / 2 - 1], key[j]) & (count / 2);
    }
    for (int j = 0; j < together; ++j)
      search.places[first + j] = low[j] + (count == 1 ? before(row[low[j]], key[j]) : 0);
  };
  parallel_for(values, 1024, [&](std::int64_t begin, std::int64_t end) {
    constexpr int k_together = 8;
    while (begin < end) {
      const std::int64_t row = begin / search.each, last = std::min(end, (row + 1) * search.each);
      const U* const among = keys.data() + row * search.n;
      for (; begin + k_together <= last; begin += k_together)
        find.template operator()<k_together>(among, begin);
      for (; begin < last; ++begin)
        find.template operator()<1>(among, begin);
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
