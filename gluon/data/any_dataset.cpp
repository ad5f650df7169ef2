#include <algorithm>
#include <cstring>

#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/gluon/data/any_dataset.h>

namespace sluice::gluon::data {

namespace detail {

void check_fits(std::size_t array, const ArraySpec& found, const ArraySpec& wanted) {
  require<ShapeError>(found.shape == wanted.shape, [&] {
    return message(
        "DataLoader: array ",
        array,
        " of a sample has shape ",
        found.shape,
        ", those of others have ",
        wanted.shape,
        "; bring them to one shape by a transform, or make batches by batchify::Pad");
  });
  require<DTypeError>(found.dtype == wanted.dtype, [&] {
    return message(
        "DataLoader: array ", array, " of a sample is ", found.dtype, ", those of others are ", wanted.dtype);
  });
}

void check_count(std::size_t found, std::size_t wanted) {
  require<ShapeError>(
      found == wanted, [&] { return message("DataLoader: a sample has ", found, " arrays, others have ", wanted); });
}

void write_array(std::size_t array, const HostArray& from, const TensorView& batch, std::size_t row) {
  check_fits(array, from.spec(), spec_of_sample(batch));
  if (const std::size_t bytes = from.bytes(); bytes > 0)
    std::memcpy(static_cast<std::byte*>(batch.data) + row * bytes, from.data(), bytes);
}

void read_each(std::span<Pick> picks, Views out, const ReadInto& read) {
  const auto bytes = static_cast<std::int64_t>(bytes_of_sample(out));
  const auto grain = std::max<std::int64_t>(1, k_bytes_a_thread / (bytes + 1));
  parallel_for(static_cast<std::int64_t>(picks.size()), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      read(picks[i], part_of(out, i, 1));
  });
}

namespace {

const HostArray& first_of(const Sample& sample) {
  require<ShapeError>(!sample.empty(), [] { return "transform_first: a sample without arrays"; });
  return sample[0];
}

// Its first array goes through a transform; straight into the batch where there is one.
class FirstTransformed final : public DatasetNode {
 public:
  FirstTransformed(std::shared_ptr<const DatasetNode> from, std::shared_ptr<const TransformNode> transform)
      : from_(std::move(from)), transform_(std::move(transform)), specs_(from_->specs()) {
    if (specs_) {
      in_ = spec_at(*specs_, 0);
      (*specs_)[0] = transform_->output_spec(in_);
    }
  }
  std::int64_t size() const override { return from_->size(); }
  std::optional<std::vector<ArraySpec>> specs() const override { return specs_; }
  std::vector<NDArray> sources() const override { return from_->sources(); }
  bool is_random() const override { return transform_->is_random() || from_->is_random(); }
  Sample sample_at(std::int64_t index, SampleRandom& random) const override {
    Sample sample = from_->sample_at(index, random);
    HostArray made(transform_->output_spec(first_of(sample).spec()));
    transform_->apply(sample[0].view(), made.view(), random);
    sample[0] = std::move(made);
    return sample;
  }
  void read(std::span<Pick> picks, Views out) const override {
    const ArraySpec wanted = spec_of_sample(out[0]);
    if (specs_)
      return read_alike(picks, out, wanted);
    for_each_place(picks.size(), out[0], [&](std::size_t i, void* to) {
      const Sample sample = from_->sample_at(picks[i].index, picks[i].random);
      check_count(sample.size(), out.size());
      check_fits(0, transform_->output_spec(sample[0].spec()), wanted);
      transform_->apply(sample[0].view(), sample_view(to, wanted), picks[i].random);
      for (std::size_t a = 1; a < out.size(); ++a) {
        write_array(a, sample[a], out[a], i);
      }
    });
  }

 private:
  // Samples of one shape: read together, transformed one by one.
  void read_alike(std::span<Pick> picks, Views out, const ArraySpec& wanted) const {
    const std::size_t row_bytes = bytes_of(in_);
    std::vector<std::byte> scratch(picks.size() * row_bytes);
    std::vector<TensorView> between(out.begin(), out.end());
    between[0] = batch_view(scratch.data(), picks.size(), in_);
    from_->read(picks, between);
    for_each_place(picks.size(), out[0], [&](std::size_t i, void* to) {
      transform_->apply(sample_view(scratch.data() + i * row_bytes, in_), sample_view(to, wanted), picks[i].random);
    });
  }

  std::shared_ptr<const DatasetNode> from_;
  std::shared_ptr<const TransformNode> transform_;
  std::optional<std::vector<ArraySpec>> specs_;
  ArraySpec in_ = {};  // where all samples have one shape
};

// Whole samples go through a function of the user's.
class Mapped final : public DatasetNode {
 public:
  Mapped(std::shared_ptr<const DatasetNode> from, Mapping<Sample, Sample> function)
      : from_(std::move(from)), function_(std::move(function)) {}
  std::int64_t size() const override { return from_->size(); }
  std::optional<std::vector<ArraySpec>> specs() const override { return {}; }
  std::vector<NDArray> sources() const override { return from_->sources(); }
  bool is_random() const override { return function_.is_random || from_->is_random(); }
  Sample sample_at(std::int64_t index, SampleRandom& random) const override {
    return function_.call(from_->sample_at(index, random), random);
  }

 private:
  std::shared_ptr<const DatasetNode> from_;
  Mapping<Sample, Sample> function_;
};

}  // namespace

const ArraySpec& spec_at(const std::vector<ArraySpec>& specs, std::size_t i) {
  require<ShapeError>(i < specs.size(), [&] {
    return message("dataset: samples have ", specs.size(), " arrays, array ", i, " is asked for");
  });
  return specs[i];
}

std::vector<std::int64_t> indices_of(std::span<const Pick> picks) {
  std::vector<std::int64_t> indices(picks.size());
  for (std::size_t i = 0; i < picks.size(); ++i)
    indices[i] = picks[i].index;
  return indices;
}

std::vector<TensorView> part_of(Views batch, std::size_t first, std::size_t n) {
  std::vector<TensorView> parts;
  for (const TensorView& view : batch) {
    const ArraySpec spec = spec_of_sample(view);
    parts.push_back(batch_view(static_cast<std::byte*>(view.data) + first * bytes_of(spec), n, spec));
  }
  return parts;
}

std::size_t bytes_of_sample(Views batch) {
  std::size_t bytes = 0;
  for (const TensorView& view : batch)
    bytes += bytes_of(spec_of_sample(view));
  return bytes;
}

Sample sample_by_read(const DatasetNode& dataset, std::int64_t index, SampleRandom& random) {
  Sample sample;
  std::vector<TensorView> views;
  const auto specs = dataset.specs();
  for (const ArraySpec& spec : *specs) {
    sample.emplace_back(spec);
    views.push_back(batch_view(const_cast<void*>(sample.back().data()), 1, spec));
  }
  Pick pick{index, random};
  dataset.read({&pick, 1}, views);
  random = pick.random;
  return sample;
}

void DatasetNode::read(std::span<Pick> picks, Views out) const {
  read_each(picks, out, [&](Pick& pick, Views to) {
    const Sample sample = sample_at(pick.index, pick.random);
    check_count(sample.size(), to.size());
    for (std::size_t a = 0; a < to.size(); ++a)
      write_array(a, sample[a], to[a]);
  });
}

}  // namespace detail

AnyDataset::AnyDataset(std::shared_ptr<const detail::DatasetNode> node) : node_(std::move(node)) {
  require(node_ != nullptr, [] { return "AnyDataset: the dataset is null"; });
}

Sample AnyDataset::sample_at(std::int64_t index, SampleRandom random) const {
  require<IndexError>(index >= 0 && index < size(), [&] {
    return message("dataset: there is no sample ", index, ", there are ", size());
  });
  for (const NDArray& source : node_->sources())
    source.wait_to_read();
  return node_->sample_at(index, random);
}

AnyDataset AnyDataset::with_first(std::shared_ptr<const detail::TransformNode> transform) const {
  return AnyDataset(std::make_shared<detail::FirstTransformed>(node_, std::move(transform)));
}

AnyDataset AnyDataset::with_first(detail::Mapping<HostArray, HostArray> function) const {
  return with_all(
      {[call = std::move(function.call)](const Sample& from, SampleRandom& random) {
         Sample sample = from;
         sample[0] = call(detail::first_of(from), random);
         return sample;
       },
       function.is_random});
}

AnyDataset AnyDataset::with_all(detail::Mapping<Sample, Sample> function) const {
  return AnyDataset(std::make_shared<detail::Mapped>(node_, std::move(function)));
}

}  // namespace sluice::gluon::data
