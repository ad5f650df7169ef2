#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/gluon/data/batch_reading.h>

namespace sluice::gluon::data::detail {

namespace {

// So many samples in a row that cannot be read are no accident.
constexpr std::size_t k_most_in_a_row = 1000;

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

std::string describe(const BatchPlan& plan, std::size_t i) {
  const std::string batch = describe(plan.batch, plan.samples());
  return plan.n() == 1 ? batch : message(batch, ", at sample ", plan.samples()[i]);
}

// With a line that says where it arose.
[[noreturn]] void rethrow_located(const std::exception_ptr& failure, const std::string& where) {
  try {
    std::rethrow_exception(failure);
  } catch (Error& error) {
    error.locate("in " + where);
    throw;
  } catch (const std::exception& other) {
    TaskFailed failed(message("task \"DataLoader\" failed: ", other.what()));
    failed.locate("in " + where);
    throw failed;
  } catch (...) {
    TaskFailed failed("task \"DataLoader\" failed: an error of a type that is no std::exception");
    failed.locate("in " + where);
    throw failed;
  }
}

bool is_out_of_memory(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const OutOfMemory&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

// What the error says if it tells of a sample that is not as it should be; nothing for others: memory, devices, the
// engine.
std::optional<std::string> corruption(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const FileError& error) {
    return error.message();
  } catch (const ValueError& error) {
    return error.message();
  } catch (const ShapeError& error) {
    return error.message();
  } catch (const DTypeError& error) {
    return error.message();
  } catch (const std::runtime_error& error) {
    return error.what();
  } catch (...) {
    return {};
  }
}

using ReadOne = std::function<void(Pick&)>;

// Reads sample i, or if that is corrupt the next one of the epoch that is not; after the last comes the first.
void read_sound(const BatchPlan& plan, std::size_t i, const ReadOne& read) {
  const std::size_t most = std::min(plan.batches->order.size(), k_most_in_a_row);
  for (std::size_t ahead = 0; ahead < most; ++ahead) {
    Pick pick = plan.pick(i, ahead);
    const std::int64_t index = pick.index;
    try {
      read(pick);
      if (ahead > 0)
        plan.ledger->replace();
      return;
    } catch (...) {
      const std::exception_ptr failure = std::current_exception();
      const std::optional<std::string> text = corruption(failure);
      if (!text)
        std::rethrow_exception(failure);
      plan.ledger->corrupt(index, *text);
      if (ahead + 1 == most)
        throw FileError(message("DataLoader: none of ", most, " samples in a row can be read; the last: ", *text));
    }
  }
}

// Calls read(pick, i) for the samples of a batch, on idle workers too. The error is that of the first that has one.
template <class Read>
void read_each(const BatchPlan& plan, std::int64_t grain, const Read& read) {
  std::vector<std::exception_ptr> failures(plan.n());
  parallel_for(static_cast<std::int64_t>(plan.n()), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      try {
        if (plan.skip_corrupt) {
          read_sound(plan, i, [&](Pick& pick) { read(pick, i); });
        } else {
          Pick pick = plan.pick(i);
          read(pick, i);
        }
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (failures[i] != nullptr)
      rethrow_located(failures[i], describe(plan, i));
  }
}

}  // namespace

void read_batch(const BatchPlan& plan, Views out) {
  const auto bytes = static_cast<std::int64_t>(bytes_of_sample(out));
  const auto grain = std::max<std::int64_t>(1, k_bytes_a_thread / (bytes + 1));
  const auto one_by_one = [&] {
    read_each(plan, grain, [&](Pick& pick, std::size_t i) { plan.dataset->read({&pick, 1}, part_of(out, i, 1)); });
  };
  if (plan.skip_corrupt)
    return one_by_one();
  std::vector<Pick> picks(plan.n());
  for (std::size_t i = 0; i < plan.n(); ++i)
    picks[i] = plan.pick(i);
  std::exception_ptr failure;
  try {
    return plan.dataset->read(picks, out);
  } catch (...) {
    failure = std::current_exception();
  }
  // Again: several threads were at it, and the error is to be that of the first sample that has one.
  if (!is_out_of_memory(failure))
    one_by_one();
  rethrow_located(failure, describe(plan.batch, plan.samples()));
}

std::vector<Sample> read_samples(const BatchPlan& plan) {
  std::vector<Sample> samples(plan.n());
  read_each(plan, 1, [&](Pick& pick, std::size_t i) { samples[i] = plan.dataset->sample_at(pick.index, pick.random); });
  return samples;
}

std::vector<HostArray> batchified(
    const BatchPlan& plan, const batchify::Function& function, const std::vector<Sample>& samples) {
  try {
    return function(samples);
  } catch (...) {
    rethrow_located(std::current_exception(), describe(plan.batch, plan.samples()));
  }
}

std::vector<ArraySpec> specs_of_samples(const DatasetNode& dataset, std::int64_t tries) {
  if (const auto specs = dataset.specs())
    return *specs;
  for (const NDArray& source : dataset.sources())
    source.wait_to_read();
  std::exception_ptr first;
  for (std::int64_t i = 0; i < std::min(tries, dataset.size()); ++i) {
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
  rethrow_located(first, "sample 0");
}

}  // namespace sluice::gluon::data::detail
