// What users write and no page shows, compiled as theirs is by each compiler that is here: a loader as a member, in a
// vector and in an optional; headers under -Wshadow; numbers of a distribution that is not described.
#include <optional>
#include <vector>

#include <sluice/sluice.h>

namespace gluon = sluice::gluon;

struct Job {
  gluon::data::DataLoader loader;
  explicit Job(const gluon::data::ArrayDataset& dataset) : loader(dataset, {.batch_size = 2}) {}
};

int main() {
  const gluon::data::ArrayDataset dataset(
      sluice::random::normal({4, 1}), sluice::random::uniform({4}, {.dtype = sluice::float64}));
  Job job(dataset);
  Job other = job;
  std::vector<gluon::data::DataLoader> several;
  several.push_back(job.loader);
  several.emplace_back(dataset);
  std::optional<gluon::data::DataLoader> maybe(job.loader);
  maybe.emplace(dataset, gluon::data::DataLoaderOptions{.batch_size = 3});
  for (auto [x, y] : other.loader)
    x.wait_to_read();
  gluon::nn::Sequential net;
  net.add(gluon::nn::Conv2D(4, {3, 3}));
  const std::size_t last = net.size() - 1;
  return net[0]->num_children() == net[last]->num_children() ? 0 : 1;
}
