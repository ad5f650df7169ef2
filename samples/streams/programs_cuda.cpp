#include "samples/streams/kernels.h"
#include "samples/streams/program.h"
#include "samples/streams/words_cuda.h"

namespace samples {

using namespace sluice;

namespace {

constexpr int k_small = 4096;  // words of a small kernel: 16 blocks, an eighth of a large GPU

/// An array and the Var that stands for it.
struct Item {
  GpuWords words;
  Var var;

  Item(const Pusher& pusher, int n)
      : words(pusher.device(), n), var(pusher.engine().new_var({.home = pusher.device()})) {}
};

std::vector<Item> make_items(const Pusher& pusher, int count, int n) {
  std::vector<Item> items;
  for (int i = 0; i < count; ++i)
    items.emplace_back(pusher, n);
  return items;
}

void push_fill(const Pusher& pusher, const Item& item, std::uint32_t start) {
  pusher("fill", {out(item.var)}, [words = item.words.data(), start](Queue queue) {
    enqueue_fill(queue.stream(), words, start, k_small);
  });
}

void push_advance(const Pusher& pusher, const Item& item, int n, int turns) {
  pusher("advance", {write(item.var)}, [words = item.words.data(), n, turns](Queue queue) {
    enqueue_advance(queue.stream(), words, n, turns);
  });
}

class ForkJoin final : public Program {
 public:
  ForkJoin(const Pusher& pusher, const Load& load)
      : load_(load), source_(pusher, k_small), branches_(make_items(pusher, k_branches, k_small)) {}

  std::string name() const override { return "fork-join"; }
  void push(const Pusher& pusher) override {
    push_fill(pusher, source_, 1);
    for (int round = 0; round < load_.rounds; ++round) {
      for (std::uint32_t number = 0; number < k_branches; ++number)
        push_branch(pusher, branches_[number], number);
      for (const Item& branch : branches_) {
        pusher(
            "join",
            {write(source_.var), read(branch.var)},
            [to = source_.words.data(), from = branch.words.data()](Queue queue) {
              enqueue_join(queue.stream(), to, from, k_small);
            });
      }
    }
  }
  bool right() const override {
    const Steps steps = Steps::of(k_kernels * load_.turns);
    std::vector<std::uint32_t> expected(k_small);
    for (std::uint32_t i = 0; i < k_small; ++i) {
      std::uint32_t word = 1 + i;
      for (int round = 0; round < load_.rounds; ++round) {
        const std::uint32_t source = word;
        for (std::uint32_t number = 0; number < k_branches; ++number)
          word = 3 * word + steps(source + number);
      }
      expected[i] = word;
    }
    return source_.words.values() == expected;
  }

 private:
  static constexpr int k_branches = 8, k_kernels = 4;

  void push_branch(const Pusher& pusher, const Item& branch, std::uint32_t number) const {
    pusher(
        "fork",
        {read(source_.var), out(branch.var)},
        [to = branch.words.data(), from = source_.words.data(), number](Queue queue) {
          enqueue_fork(queue.stream(), to, from, number, k_small);
        });
    for (int i = 0; i < k_kernels; ++i)
      push_advance(pusher, branch, k_small, load_.turns);
  }

  Load load_;
  Item source_;
  std::vector<Item> branches_;
};

class Pipeline final : public Program {
 public:
  Pipeline(const Pusher& pusher, const Load& load) : load_(load), there_(make_items(pusher, k_buffers, load.batch)) {
    for (int i = 0; i < load.batches; ++i) {
      here_.push_back({PinnedWords(load.batch), PinnedWords(load.batch), pusher.engine().new_var()});
      for (int k = 0; k < load.batch; ++k)
        here_.back().from.data()[k] = first_word(i) + static_cast<std::uint32_t>(k);
    }
  }

  std::string name() const override { return "pipeline"; }
  // Nobody says which stream waits for which: a buffer's next copy in waits for its last copy out by itself.
  void push(const Pusher& pusher) override {
    for (std::size_t i = 0; i < here_.size(); ++i) {
      const Batch& batch = here_[i];
      const Item& item = there_[i % there_.size()];
      push_copy(pusher, StreamKind::copy_in, {out(item.var)}, item.words.data(), batch.from);
      for (int k = 0; k < k_kernels; ++k)
        push_advance(pusher, item, load_.batch, turns());
      push_copy(pusher, StreamKind::copy_out, {read(item.var), out(batch.var)}, batch.to, item.words.data());
    }
  }
  bool right() const override {
    const Steps steps = Steps::of(k_kernels * turns());
    for (std::size_t i = 0; i < here_.size(); ++i) {
      for (int k = 0; k < load_.batch; ++k) {
        if (here_[i].to.data()[k] != steps(first_word(static_cast<int>(i)) + static_cast<std::uint32_t>(k)))
          return false;
      }
    }
    return true;
  }

 private:
  static constexpr int k_buffers = 3, k_kernels = 4;

  struct Batch {
    PinnedWords from, to;
    Var var;
  };

  static std::uint32_t first_word(int batch) { return 7919u * static_cast<std::uint32_t>(batch); }
  /// A batch fills the GPU many times over: shorter kernels.
  int turns() const { return load_.turns / 64 + 1; }

  static std::uint32_t* memory(std::uint32_t* words) { return words; }
  static std::uint32_t* memory(const PinnedWords& words) { return words.data(); }
  template <class To, class From>
  void push_copy(const Pusher& pusher, StreamKind kind, AccessList access, const To& to, const From& from) const {
    const std::size_t bytes = here_[0].from.bytes();
    pusher(
        kind == StreamKind::copy_in ? TaskName("copy in") : TaskName("copy out"),
        std::move(access),
        [to = memory(to), from = memory(from), bytes](Queue queue) {
          check(
              cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(queue.stream())),
              "cudaMemcpyAsync");
        },
        kind);
  }

  Load load_;
  std::vector<Item> there_;
  std::vector<Batch> here_;
};

class Chains final : public Program {
 public:
  Chains(const Pusher& pusher, const Load& load) : load_(load), items_(make_items(pusher, k_chains, k_small)) {}

  std::string name() const override { return "32 chains"; }
  void push(const Pusher& pusher) override {
    for (std::uint32_t chain = 0; chain < k_chains; ++chain) {
      push_fill(pusher, items_[chain], chain);
      for (int i = 0; i < load_.rounds; ++i)
        push_advance(pusher, items_[chain], k_small, load_.turns);
    }
  }
  bool right() const override {
    Steps steps;
    for (int i = 0; i < load_.rounds; ++i) {
      const Steps one = Steps::of(load_.turns);
      steps = {steps.factor * one.factor, steps.summand * one.factor + one.summand};
    }
    std::vector<std::uint32_t> expected(k_small);
    for (std::uint32_t chain = 0; chain < k_chains; ++chain) {
      for (std::uint32_t i = 0; i < k_small; ++i)
        expected[i] = steps(chain + i);
      if (items_[chain].words.values() != expected)
        return false;
    }
    return true;
  }

 private:
  static constexpr int k_chains = 32;

  Load load_;
  std::vector<Item> items_;
};

}  // namespace

std::unique_ptr<Program> make_fork_join(const Pusher& pusher, const Load& load) {
  return std::make_unique<ForkJoin>(pusher, load);
}
std::unique_ptr<Program> make_pipeline(const Pusher& pusher, const Load& load) {
  return std::make_unique<Pipeline>(pusher, load);
}
std::unique_ptr<Program> make_chains(const Pusher& pusher, const Load& load) {
  return std::make_unique<Chains>(pusher, load);
}

}  // namespace samples
