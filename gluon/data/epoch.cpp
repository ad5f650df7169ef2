#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/data/epoch.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::gluon::data {

namespace detail {

namespace {

// "batch 3, samples 6 to 7", counted from 0 as a dataset counts them.
std::string describe(std::size_t batch, std::span<const std::int64_t> samples) {
  constexpr std::size_t k_listed = 8;
  const std::int64_t first = samples.front(), last = samples.back();
  bool is_run = true;
  for (std::size_t i = 1; i < samples.size(); ++i)
    is_run &= samples[i] == samples[i - 1] + 1;
  if (samples.size() == 1)
    return message("batch ", batch, ", sample ", first);
  if (is_run)
    return message("batch ", batch, ", samples ", first, " to ", last);
  std::string listed;
  for (std::size_t i = 0; i < std::min(k_listed, samples.size()); ++i)
    listed += message(i == 0 ? "" : ", ", samples[i]);
  if (samples.size() > k_listed)
    listed += message(" and ", samples.size() - k_listed, " more");
  return message("batch ", batch, ", samples ", listed);
}

// Rethrows the exception that is being handled, with a line that says where it arose.
[[noreturn]] void rethrow_located(const std::string& where) {
  try {
    throw;
  } catch (Error& error) {
    error.locate("in " + where);
    throw;
  } catch (const std::exception& other) {
    TaskFailed failed(message("task \"DataLoader\" failed: ", other.what()));
    failed.locate("in " + where);
    throw failed;
  }
}

bool is_out_of_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void read_batch(const BatchPlan& plan, Views out) {
  std::vector<Pick> picks(plan.n);
  for (std::size_t i = 0; i < plan.n; ++i)
    picks[i] = plan.pick(i);
  std::exception_ptr failure;
  try {
    return plan.dataset->read(picks, out);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::string where = describe(plan.batch, plan.samples());
  // Again one by one: several threads were at it, and the error is to be that of the first sample that has one.
  for (std::size_t i = 0; plan.n > 1 && i < plan.n && !is_out_of_memory(failure); ++i) {
    try {
      Pick pick = plan.pick(i);
      plan.dataset->read({&pick, 1}, part_of(out, i, 1));
    } catch (...) {
      rethrow_located(message(where, ", at sample ", plan.samples()[i]));
    }
  }
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    rethrow_located(where);
  }
}

std::vector<ArraySpec> specs_of_samples(const DatasetNode& dataset) {
  if (const auto specs = dataset.specs())
    return *specs;
  for (const NDArray& source : dataset.sources())
    source.wait_to_read();
  constexpr std::int64_t k_tried = 16;
  std::exception_ptr first;
  for (std::int64_t i = 0; i < std::min(k_tried, dataset.size()); ++i) {
    try {
      SampleRandom random;
      std::vector<ArraySpec> specs;
      for (const HostArray& array : dataset.sample_at(i, random))
        specs.push_back(array.spec());
      require<ShapeError>(!specs.empty(), [&] { return message("DataLoader: sample ", i, " has no arrays"); });
      return specs;
    } catch (...) {
      if (first == nullptr)
        first = std::current_exception();
    }
  }
  try {
    std::rethrow_exception(first);
  } catch (...) {
    rethrow_located("sample 0");
  }
}

}  // namespace detail

namespace {

NDArray empty_batch(std::size_t samples, const ArraySpec& spec, Device device) {
  Shape shape = spec.shape;
  shape.insert(0, static_cast<std::int64_t>(samples));
  return empty(shape, {.dtype = spec.dtype, .device = cpu(), .pinned = device.is_gpu()});
}

NDArray moved(const NDArray& host, Device device, SourceLocation site) {
  if (device.is_cpu())
    return host;
  NDArray there = empty(host.shape(), {.dtype = host.dtype(), .device = device});
  copy_into(host, there, site);
  return there;
}

Batch batch_of(std::vector<NDArray> arrays) {
  Batch batch{.count = arrays.size()};
  batch.data = std::move(arrays[0]);
  if (arrays.size() > 1)
    batch.label = std::move(arrays[1]);
  for (std::size_t i = 2; i < arrays.size(); ++i)
    batch.more.push_back(std::move(arrays[i]));
  return batch;
}

}  // namespace

void DataLoader::Iterator::Epoch::prepare() {
  const std::size_t n = std::min(order->size() - next, static_cast<std::size_t>(options.batch_size));
  const detail::BatchPlan plan{dataset, order, random, next / static_cast<std::size_t>(options.batch_size), next, n};
  Task task{.name = "DataLoader"};
  std::vector<NDArray> made;
  std::vector<TensorView> views;
  for (const ArraySpec& spec : specs) {
    made.push_back(empty_batch(n, spec, options.device));
    sluice::detail::Buffer* buffer = made.back().object()->buffer;
    task.access.push_back(out(buffer->var()));
    buffer->raise_version();
    // The arrays' memory outlives the task by their Vars; the body keeps only addresses of them.
    views.push_back(detail::batch_view(made.back().object()->data(), n, spec));
  }
  const std::vector<NDArray> sources = dataset->sources();
  for (const NDArray& source : sources) {
    for (const auto& region : source.object()->buffer->regions())
      task.access.push_back(read(region.var));
  }
  Engine::current().push(
      task, [plan, views = std::move(views)] { detail::read_batch(plan, views); }, site);
  for (NDArray& array : made)
    array = moved(array, options.device, site);
  ready.push_back(batch_of(std::move(made)));
  next += n;
}

}  // namespace sluice::gluon::data
