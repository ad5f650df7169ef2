#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/source_location.h>
#include <sluice/gluon/data/ledger.h>
#include <sluice/gluon/data/loader.h>

namespace sluice::gluon::data {

/// One epoch of a DataLoader: what was prepared of it and what is to come.
struct DataLoader::Iterator::Epoch {
  /// A batch under way. Its arrays are there at once where their shapes are known; otherwise a task makes them.
  struct Prepared {
    Batch batch = {};
    std::int64_t samples = 0;
    std::shared_ptr<detail::Ledger::Entry> entry = std::make_shared<detail::Ledger::Entry>();
    std::shared_ptr<std::vector<NDArray>> made = {};
    TaskHandle task = {};
    Var done = {};          // of a loader with a timeout: written by the task
    bool is_given = false;  // to the program
  };

  Epoch() = default;
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;
  /// Drops what the program did not look at: nobody hears of errors in it.
  ~Epoch();

  std::shared_ptr<const detail::DatasetNode> dataset;
  std::vector<ArraySpec> specs;
  DataLoaderOptions options;
  SourceLocation site;
  RandomBlock random;  // of its samples
  std::shared_ptr<const Batches> batches;
  std::shared_ptr<detail::Ledger> ledger;
  std::int64_t next = 0;                                                       // the first batch that was not begun yet
  std::shared_ptr<std::int64_t> position = std::make_shared<std::int64_t>(0);  // batches reached
  std::deque<Prepared> ready;

  /// Begins batches until as many are ahead as are to be.
  void fill();
  /// Begins batches and reaches the first one; that, too, where one behind it cannot be begun and the error is thrown.
  void go_on();
  /// The program has come to the first of those that are ready, or to the end.
  void reach();
  /// Goes on to the next.
  void pass();
  /// Waits for the first batch where its shape depends on its samples, and where that may take so long at most.
  const Batch& front();

 private:
  static void drop(Prepared& batch) noexcept;
  void await(const Prepared& batch) const;
  void prepare();
  void prepare_plain(Prepared& to, Task& task);
  void prepare_by_function(Prepared& to, Task& task);
};

}  // namespace sluice::gluon::data
