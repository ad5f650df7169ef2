// Data: a dataset gives samples, a transform changes them, a loader makes batches of them on other threads.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;
namespace data = gluon::data;

// A transform of one's own: it says what becomes of a sample's shape and type, and how.
struct Shift {
  float by;
  ArraySpec output_spec(const ArraySpec& in) const { return in; }
  void operator()(const TensorView& in, const TensorView& out) const {
    const auto* const from = static_cast<const float*>(in.data);
    auto* const to = static_cast<float*>(out.data);
    for (std::int64_t i = 0; i < in.shape.size(); ++i)
      to[i] = from[i] + by;
  }
};

int main() {
  // Ten samples of two numbers, each with a label.
  const NDArray samples = arange(0, 20).reshape({10, 2});
  const data::ArrayDataset dataset(samples, arange(0, 10).astype(int32));
  data::DataLoader loader(dataset.transform_first(Shift{100}), {.batch_size = 4});

  std::cout << loader.num_samples() << " samples in " << loader.size() << " batches\n";
  for (const auto& [x, y] : loader)
    std::cout << x.shape() << " with labels " << y << "\n";

  // Shuffled batches: the same seed gives the same order, every epoch another one.
  data::DataLoader shuffled(dataset, {.batch_size = 10, .shuffle = true, .seed = 7});
  const NDArray first = (*shuffled.begin()).label, second = (*shuffled.begin()).label;
  std::cout << "all samples are there: " << (sum(first).item<std::int64_t>() == 45 ? "yes" : "no")
            << ", in one order twice: " << (all(first == second).item<bool>() ? "yes" : "no") << "\n";
}
