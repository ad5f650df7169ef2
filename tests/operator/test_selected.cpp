// What counts and chooses among many elements, at lengths where threads, tiles and pieces end: as plain loops do.
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using test::random_array;

namespace {

using Index = std::int64_t;
using Indices = std::vector<Index>;

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

Indices whole(const NDArray& x) {
  return x.to_vector<Index>();
}

/// Truths of a row, `every` of them a true one; 0: none. The first comes after some others, which a load begins with.
struct Truths {
  NDArray row;
  Indices places;

  Truths(Index n, Index every, Index offset, Device device) {
    const NDArray numbers = arange(0, static_cast<double>(n + offset), 1, {.dtype = int64, .device = device});
    row = (every == 0 ? numbers < 0 : numbers % every == every - 1).slice(0, offset, n + offset);
    for (Index i = 0; every != 0 && i < n; ++i) {
      if ((i + offset) % every == every - 1)
        places.push_back(i);
    }
  }
};

Indices counted(const std::vector<double>& x, const std::vector<double>& edges) {
  Indices counts(edges.size() - 1);
  for (const double value : x) {
    if (!(value >= edges.front() && value <= edges.back()))
      continue;
    std::size_t bin = counts.size() - 1;
    while (bin > 0 && !(edges[bin] <= value))
      --bin;
    ++counts[bin];
  }
  return counts;
}

}  // namespace

TEST_CASE("Places of truths are found at all lengths", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    for (const Index n : {1, 15, 16, 17, 31, 33, 511, 4095, 4096, 4097, 8193, 65536 + 3}) {
      for (const Index every : {0, 1, 2, 7, 4096}) {
        for (const Index offset : {0, 1}) {
          CAPTURE(device, n, every, offset);
          const Truths truths(n, every, offset, device);
          CHECK(whole(nonzero(truths.row)) == truths.places);
          CHECK(
              whole(boolean_mask(arange(0, static_cast<double>(n), 1, {.device = device}), truths.row)) ==
              truths.places);
        }
      }
    }
  }
}

TEST_CASE("Pieces of a row of truths are of several tiles where it is long", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    for (const Index n : {2048 * 4096, 2048 * 4096 + 1}) {
      CAPTURE(device, n);
      const Truths truths(n, 1021, 0, device);
      CHECK(whole(nonzero(truths.row)) == truths.places);
    }
  }
}

TEST_CASE("Masks choose and unique finds elements of every width, at all lengths", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : {bool_, uint8, int16, float16, bfloat16, int32, float32, int64, float64}) {
      for (const Index n : {1, 2, 255, 256, 257, 4097, 9001}) {
        CAPTURE(device, dtype, n);
        const Truths truths(n, 3, 1, device);
        const NDArray x = (random_array({n}, 3, -9, 90, int32) - 40).astype(dtype);
        const std::vector<double> all = x.to_vector<double>();
        std::vector<double> chosen;
        for (const Index place : truths.places)
          chosen.push_back(all[static_cast<std::size_t>(place)]);
        CHECK(boolean_mask(x.to(device), truths.row).to_vector<double>() == chosen);
        CHECK(unique(x.to(device)).to_vector<double>() == [&] {
          const std::set<double> once(all.begin(), all.end());
          return std::vector<double>(once.begin(), once.end());
        }());
      }
    }
  }
}

TEST_CASE("The gradient of a mask goes to where its truths are, twice too", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const Truths truths(9, 2, 1, device);
    NDArray x = arange(0, 9, 1, {.dtype = float64, .device = device});
    x.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = sum(square(boolean_mask(x, truths.row)) * boolean_mask(x, truths.row));
    const NDArray first = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    const NDArray total = sum(first);
    std::vector<double> once(9), twice(9);
    for (const Index place : truths.places) {
      const auto number = static_cast<double>(place);
      once[static_cast<std::size_t>(place)] = 3 * number * number;
      twice[static_cast<std::size_t>(place)] = 6 * number;
    }
    CHECK(first.to_vector<double>() == once);
    CHECK(autograd::grad({&total, 1}, {&x, 1})[0].to_vector<double>() == twice);
  }
}

TEST_CASE("A GPU writes as many places as it is told, of too few the row's extent", "[operator][counts][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Operator& op = *find_operator("true_places");
  const NDArray truths = array<bool>({true, false, true, true}).to(gpu());
  const auto places = [&](const char* count) {
    return whole(invoke(op, std::span(&truths, 1), parse_attributes(op, count), SourceLocation::current())[0]);
  };
  CHECK(places("count=2") == Indices{0, 2});
  CHECK(places("count=4") == Indices{0, 2, 3, 4});
  const Operator& entries = *find_operator("true_entries");
  const NDArray in[] = {array<Index>({5, 6, 7, 8}).to(gpu()), truths};
  CHECK(whole(invoke(entries, in, parse_attributes(entries, "count=4"), {})[0]) == Indices{5, 7, 8, 8});
}

TEST_CASE("Elements have the bins that their edges say, in any number of them", "[operator][counts][gpu]") {
  constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();
  for (const Device device : devices()) {
    for (const DType dtype : {float32, float64, float16, bfloat16, int32}) {
      NDArray x = random_array({3, 1001}, 7, -40, 40, dtype);
      if (is_floating(dtype))
        x = concat({x.reshape({-1}), array<double>({k_nan, k_inf, -k_inf, -0.0, 1.5, 13}).astype(dtype)}, 0);
      const std::vector<double> elements = x.to_vector<double>();
      for (const Index bins : {1, 2, 31, 100, 4096, 4097}) {
        for (const auto& [low, high] : {std::pair{-13.0, 13.0}, {0.0, 0.3}, {1.5, std::nextafter(1.5, 2.0)}}) {
          CAPTURE(device, dtype, bins, low, high);
          const Histogram made = histogram(x.to(device), bins, low, high);
          CHECK(whole(made.counts) == counted(elements, made.edges.to_vector<double>()));
          CHECK(made.edges.to_vector<double>() == histogram(zeros({0}), bins, low, high).edges.to_vector<double>());
        }
      }
    }
    const NDArray none = zeros({0}, {.device = device});
    CHECK(whole(histogram(none, 3, 0, 1).counts) == Indices{0, 0, 0});
  }
}

// Pieces of 65536 elements, two elements at a time.
TEST_CASE("Bins of many elements are those of their parts, on any number of workers", "[operator][counts]") {
  for (const int workers : {1, 3}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (const Index n : {65535, 65536, 65537, 196609}) {
      CAPTURE(workers, n);
      const NDArray x = random_array({n, 2}, 9, -1.2, 1.2), places = floor(x * 9).astype(int32);
      const NDArray column = x.slice(1, 1, 2), same = x.slice(0, 0, 1).broadcast_to({n, 2});
      const Histogram made = histogram(x, 9, -1, 1);
      const std::vector<double> edges = made.edges.to_vector<double>();
      CHECK(whole(made.counts) == counted(x.to_vector<double>(), edges));
      CHECK(whole(histogram(column, 9, -1, 1).counts) == counted(column.to_vector<double>(), edges));
      CHECK(whole(histogram(same, 9, -1, 1).counts) == counted(same.to_vector<double>(), edges));
      Indices want(7, 0);
      for (const Index place : places.to_vector<Index>()) {
        if (place >= 0 && place < 7)
          ++want[static_cast<std::size_t>(place)];
      }
      CHECK(whole(bincount(places, 7)) == want);
    }
    engine.wait_all();
  }
}

TEST_CASE("Elements are put at all lengths, of several at one place the last", "[operator][indexing][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : {float32, float64, float16, uint8}) {
      for (const Index n : {1, 31, 33, 1023, 1024, 1025, 5000}) {
        for (const Index named : {Index{0}, Index{1}, n, 3 * n}) {
          CAPTURE(device, dtype, n, named);
          const NDArray x = random_array({n}, 3, 0, 100, dtype), values = random_array({named}, 4, 0, 100, dtype);
          const NDArray at = random_array({named}, 5, 0, static_cast<double>(n) - 0.5, int64);
          std::vector<double> want = x.to_vector<double>();
          const std::vector<double> given = values.to_vector<double>();
          const Indices places = whole(at);
          for (std::size_t i = 0; i < places.size(); ++i)
            want[static_cast<std::size_t>(places[i])] = given[i];
          CHECK(put(x.to(device), at.to(device), values.to(device)).to_vector<double>() == want);
        }
      }
    }
  }
}

TEST_CASE(
    "Rows are scattered among zeros, of several at one place the last, which has the gradient",
    "[operator][indexing][gpu]") {
  for (const Device device : devices()) {
    for (const Index width : {1, 3, 4, 64}) {
      for (const Index named : {0, 1, 40, 700}) {
        CAPTURE(device, width, named);
        const NDArray at = random_array({2, named}, 5, 0, 5.5, int32), values = random_array({named, width}, 4);
        const std::vector<double> given = values.to_vector<double>();
        std::vector<double> want(static_cast<std::size_t>(36 * width)), gradient(given.size());
        const Indices places = whole(at);
        std::vector<std::size_t> last(36, given.size());
        for (std::size_t i = 0; i < static_cast<std::size_t>(named); ++i)
          last[static_cast<std::size_t>(places[i] * 6 + places[i + static_cast<std::size_t>(named)])] = i;
        for (std::size_t place = 0; place < last.size(); ++place) {
          for (std::size_t j = 0; j < static_cast<std::size_t>(width) && last[place] != given.size(); ++j) {
            want[place * static_cast<std::size_t>(width) + j] =
                given[last[place] * static_cast<std::size_t>(width) + j];
            gradient[last[place] * static_cast<std::size_t>(width) + j] = 1;
          }
        }
        NDArray rows = values.to(device);
        rows.attach_grad();
        const autograd::RecordScope record;
        const NDArray y = scatter_nd(rows, at.to(device), {6, 6, width});
        y.backward();
        CHECK(y.to_vector<double>() == want);
        CHECK(rows.grad().to_vector<double>() == gradient);
      }
    }
  }
}

TEST_CASE(
    "Sums at entries of any number reach the last one, and are apart from the first", "[operator][indexing][gpu]") {
  for (const Device device : devices()) {
    for (const Index n : {1, 2, 3, 256, 257, 258, 65537}) {
      for (const Index width : {1, 3}) {
        CAPTURE(device, n, width);
        NDArray x = zeros({n, width}, {.dtype = float64, .device = device});
        x.attach_grad();
        {
          const autograd::RecordScope record;
          take(x, array<Index>({n - 1, 0, n - 1, n / 2, 0, n - 1}).to(device), 0).backward();
        }
        std::vector<double> want(static_cast<std::size_t>(n * width));
        for (const Index entry : {n - 1, Index{0}, n - 1, n / 2, Index{0}, n - 1}) {
          for (Index j = 0; j < width; ++j)
            ++want[static_cast<std::size_t>(entry * width + j)];
        }
        CHECK((x.grad().to_vector<double>() == want));
      }
    }
  }
}
