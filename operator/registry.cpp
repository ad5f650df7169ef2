#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <vector>

#include <sluice/operator/detail/families.h>

namespace sluice {

namespace {

// The one list of families.
constexpr detail::OperatorList (*k_families[])() noexcept = {
    detail::elementwise_operators, detail::fused_operators,   detail::view_operators,
    detail::matmul_operators,      detail::conv_operators,    detail::pool_operators,
    detail::norm_operators,        detail::reduce_operators,  detail::softmax_operators,
    detail::gather_operators,      detail::indexed_operators, detail::sequence_operators,
    detail::concat_operators,      detail::control_operators, detail::walk_operators,
    detail::scan_operators,        detail::diff_operators,    detail::place_operators,
    detail::order_operators,       detail::search_operators,  detail::count_operators,
    detail::random_operators,      detail::update_operators,  detail::attention_operators,
    detail::resize_operators,      detail::product_operators, detail::decomposition_operators,
    detail::ctc_operators,         detail::vision_operators,
};

bool comes_before(const Operator* op, std::string_view name) {
  return op->name < name;
}

// By name. Never destroyed: threads may ask to the very end.
class Registry {
 public:
  Registry() {
    for (const auto family : k_families) {
      const detail::OperatorList list = family();
      all_.insert(all_.end(), list.begin(), list.end());
    }
    std::sort(all_.begin(), all_.end(), [](const Operator* a, const Operator* b) { return comes_before(a, b->name); });
  }

  std::vector<const Operator*> all() const {
    const std::shared_lock hold(mutex_);
    return all_;
  }

  const Operator* find(std::string_view name) const {
    const std::shared_lock hold(mutex_);
    const auto at = std::lower_bound(all_.begin(), all_.end(), name, comes_before);
    return at == all_.end() || (*at)->name != name ? nullptr : *at;
  }

  void add(std::shared_ptr<const Operator> op) {
    const std::lock_guard hold(mutex_);
    const std::string_view name = op->name;
    const auto at = std::lower_bound(all_.begin(), all_.end(), name, comes_before);
    require(at == all_.end() || (*at)->name != name, [&] {
      return message("register_operator: there is an operator ", name, " already");
    });
    added_.reserve(added_.size() + 1);
    all_.insert(at, op.get());
    added_.push_back(std::move(op));
  }

 private:
  mutable std::shared_mutex mutex_;
  std::vector<const Operator*> all_;
  std::vector<std::shared_ptr<const Operator>> added_;
};

Registry& registry() {
  static auto* const made = new Registry;
  return *made;
}

}  // namespace

std::vector<const Operator*> operators() {
  return registry().all();
}

const Operator* find_operator(std::string_view name) {
  return registry().find(name);
}

void register_operator(std::shared_ptr<const Operator> op) {
  require(op != nullptr && op->name != nullptr && *op->name != '\0', [] {
    return "register_operator: an operator has no name";
  });
  const bool computes = !op->kernels.empty() || op->issue != nullptr || op->composition != nullptr;
  require(computes || op->view != nullptr, [&] {
    return message("register_operator: ", op->name, " has no kernel, composition or view");
  });
  require(op->view != nullptr || op->infer != nullptr, [&] {
    const char* const what = op->composition != nullptr ? "a composition" : "a kernel";
    return message("register_operator: ", op->name, " has ", what, " but no inference");
  });
  const bool writes = op->outputs != 0 || op->mutates != nullptr || op->mutated_inputs != k_none;
  require(op->inputs >= -1 && op->outputs >= -1 && writes && op->attributes != nullptr, [&] {
    return message(
        "register_operator: ", op->name, " cannot have ", op->inputs, " inputs and ", op->outputs, " outputs");
  });
  registry().add(std::move(op));
}

}  // namespace sluice
