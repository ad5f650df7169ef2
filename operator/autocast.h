#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/dtype.h>

// Automatic mixed precision: which calls run in a half type is said by the operator, not by the program.
namespace sluice::amp {

/// What becomes of the floating inputs of a call in a scope of autocast(). float64 stays float64 always.
enum class CastRule : std::uint8_t {
  neutral,  // nothing
  low,      // they become the scope's type, unless one is float64: products, convolutions, attention
  float32,  // half types become float32: exponentials, sums, norms, losses
  widest,   // they become the type that promote() gives for all of them: what would mix types
};

/// The rule of the operator of that name; neutral for one that nobody gave a rule, and for gradients.
SLUICE_API CastRule cast_rule(std::string_view op);
/// The names of all operators with that rule, sorted; of neutral ones those that are listed as such.
SLUICE_API std::vector<std::string_view> operators_with(CastRule rule);
/// Gives an operator from outside (register_operator()) its rule, once. Throws ValueError where there is no such
/// operator, or where it has a rule. Any thread may call this.
SLUICE_API void set_cast_rule(std::string_view op, CastRule rule);

/// What autocast() gives: the thread's calls are cast as long as it lives. It is to end on the thread that it was
/// opened on: from another one it cannot end that thread's casts, which then go on for good.
class SLUICE_API AutocastScope {
 public:
  /// None: calls are not cast in it. Throws DTypeError for a type that is neither float16 nor bfloat16.
  explicit AutocastScope(std::optional<DType> low);
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Around forward and loss (PyTorch's torch.autocast, MXNet's amp.init()): until the scope ends, calls of operators by
/// this thread have their inputs cast as cast_rule() of each says. What a call is composed of is not cast again.
///
///     {
///       const auto cast = amp::autocast(bfloat16);
///       const autograd::RecordScope record;
///       loss = loss_of(net(x), y);
///     }
///     loss.backward();
///
/// Gradients are computed in the types of forward, wherever backward() is called, and come back in a parameter's own,
/// float32. A variable is cast once and used again until it is written, a region runs, another library may write it
/// (to_dlpack()) or the outermost scope ends. Calls that write
/// what they are given, in place, into destinations or running statistics, are left as they are; views too. Scopes
/// nest: with enabled = false calls in the inner one are made as they are. Other threads and bodies of tasks are not
/// concerned. What is traced, a hybridized block or a TrainStep, has the casts in its graph, one graph for each type.
/// Throws DTypeError for a type that is neither float16 nor bfloat16.
[[nodiscard]] SLUICE_API AutocastScope autocast(DType low = bfloat16, bool enabled = true);

/// The type that calls of this thread are cast to now; none where they are not.
SLUICE_API std::optional<DType> autocast_dtype() noexcept;

}  // namespace sluice::amp
