// Reductions of programs on a CPU: the reductions' own loops, of terms that tiles make.
#include <algorithm>
#include <memory>
#include <optional>

#include <sluice/operator/fused/detail/tiles.h>
#include <sluice/operator/fused/reduction.h>

namespace sluice::fused {

namespace {

/// The one result of a program, of one element at least, row by row.
class ProgramTerms final : public sluice::detail::MadeTerms {
 public:
  ProgramTerms(const Interned& what, std::span<const TensorView> inputs, const TensorView& result)
      : job_(what, inputs, {&result, 1}) {}

  std::unique_ptr<Reader> reader() const override { return std::make_unique<OfThread>(job_); }
  std::int64_t most() const override { return job_.tile; }
  std::int64_t work() const override { return 1 + 2 * static_cast<std::int64_t>(job_.schedule.steps.size()); }

 private:
  class OfThread final : public Reader {
   public:
    explicit OfThread(const TileJob& job) : tiles_(job) {}
    const void* make(std::int64_t first, std::int64_t count) override {
      tiles_.run(first, count);
      return tiles_.made();
    }

   private:
    Tiles tiles_;
  };

  TileJob job_;
};

}  // namespace

void reduce_on_cpu(const KernelCall& call) {
  const Interned& what = interned_reduced(call.attributes);
  // Terms are made in stretches that may overlap: who reads them could not write them down too.
  if (what.program.outputs.size() > 1)
    return reduce_in_two_steps(call);
  const TensorView result = terms_of(call);
  std::optional<ProgramTerms> terms;
  if (result.size > 0)
    terms.emplace(what, call.inputs, result);
  const KernelCall reduce{call.op, call.queue, {&result, 1}, call.outputs, call.attributes};
  sluice::detail::reduce_made_on_cpu(reduction_of(call.attributes), reduce, terms ? &*terms : nullptr);
}

}  // namespace sluice::fused
