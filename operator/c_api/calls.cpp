#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/c_api/detail/handles.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/random/random.h>

using namespace sluice;
using namespace sluice::c_api;

struct sluice_mode {
  autograd::ModeScope scope;
};

namespace {

const Operator& operator_named(const char* name) {
  check_given("the operator's name", name);
  const Operator* const op = find_operator(name);
  require<ValueError>(op != nullptr, [&] { return message("there is no operator \"", name, '"'); });
  return *op;
}

// All or none: handles are made when nothing can fail any more.
template <class Results>
void hand_out(const Results& results, sluice_array_t* out) noexcept {
  std::transform(results.begin(), results.end(), out, [](const NDArray& result) { return new_handle(result); });
}

Arrays head_grads_of(const sluice_array_t* grads, std::size_t count) {
  return grads == nullptr ? Arrays() : arrays_of(grads, count);
}

}  // namespace

sluice_status sluice_each_operator(void (*visit)(const char* name, void* context), void* context) {
  return guarded("sluice_each_operator", [&] {
    check_given("visit", reinterpret_cast<const void*>(visit));
    for (const Operator* const op : operators())
      visit(op->name, context);
  });
}

sluice_status sluice_invoke(
    const char* op,
    const sluice_array_t* inputs,
    std::size_t input_count,
    const char* attributes,
    sluice_array_t* outputs,
    std::size_t capacity,
    std::size_t* count) {
  return guarded("sluice_invoke", [&] {
    check_given("count", count);
    const Operator& found = operator_named(op);
    const Arrays given = arrays_of(inputs, input_count);
    const Attributes told = parse_attributes(found, attributes == nullptr ? "" : attributes);
    const Arrays results = invoke(found, given, told, SourceLocation());
    require<ValueError>(results.size() <= capacity, [&] {
      return message(found.name, " gives ", results.size(), " arrays, there is room for ", capacity);
    });
    if (!results.empty())
      check_given("outputs", outputs);
    hand_out(results, outputs);
    *count = results.size();
  });
}

sluice_status sluice_seed(std::uint64_t seed) {
  return guarded("sluice_seed", [&] { random::seed(seed); });
}

sluice_status sluice_begin_mode(int recording, int training, sluice_mode_t* out) {
  return guarded("sluice_begin_mode", [&] {
    check_given("out", out);
    *out = new sluice_mode{{recording != 0, training != 0}};
  });
}

void sluice_end_mode(sluice_mode_t mode) {
  const std::unique_ptr<sluice_mode> ended(mode);
}

sluice_status sluice_attach_grad(sluice_array_t array) {
  return guarded("sluice_attach_grad", [&] { array_of(array).attach_grad(GradReq::write, {}); });
}

sluice_status sluice_grad(sluice_array_t array, sluice_array_t* out) {
  return guarded("sluice_grad", [&] {
    check_given("out", out);
    *out = new_handle(array_of(array).grad());
  });
}

sluice_status sluice_detach(sluice_array_t array, sluice_array_t* out) {
  return guarded("sluice_detach", [&] {
    check_given("out", out);
    *out = new_handle(array_of(array).detach());
  });
}

sluice_status sluice_backward(
    const sluice_array_t* heads, const sluice_array_t* head_grads, std::size_t count, int retain_graph) {
  return guarded("sluice_backward", [&] {
    const Arrays of = arrays_of(heads, count);
    const Arrays grads = head_grads_of(head_grads, count);
    autograd::backward(of, grads, {.retain_graph = retain_graph != 0});
  });
}

sluice_status sluice_gradients(
    const sluice_array_t* heads,
    const sluice_array_t* head_grads,
    std::size_t count,
    const sluice_array_t* variables,
    std::size_t variable_count,
    int create_graph,
    sluice_array_t* out) {
  return guarded("sluice_gradients", [&] {
    const Arrays of = arrays_of(heads, count), to = arrays_of(variables, variable_count);
    const Arrays grads = head_grads_of(head_grads, count);
    if (variable_count != 0)
      check_given("out", out);
    hand_out(autograd::grad(of, to, grads, {.create_graph = create_graph != 0}), out);
  });
}
