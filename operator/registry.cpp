#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/grown.h>

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
    detail::ctc_operators,         detail::vision_operators,  detail::rnn_operators,
    detail::block_operators,       detail::lookup_operators,  detail::statistics_operators,
};

/// What NumPy calls operators that have another name here.
struct OtherName {
  std::string_view name, op;
};
constexpr OtherName k_other_names[] = {
    {"absolute", "abs"},
    {"amax", "max"},
    {"amin", "min"},
    {"concatenate", "concat"},
    {"deg2rad", "radians"},
    {"fix", "trunc"},
    {"invert", "bitwise_not"},
    {"rad2deg", "degrees"},
    {"remainder", "mod"},
    {"rint", "round"},
    {"std", "standard_deviation"},
    {"true_divide", "divide"},
    {"var", "variance"},
};

std::string_view own_name(std::string_view name) {
  for (const OtherName& other : k_other_names) {
    if (other.name == name)
      return other.op;
  }
  return name;
}

bool comes_before(const Operator* op, std::string_view name) {
  return op->name < name;
}

/// Those of plugins too, which it keeps.
struct Registry {
  std::vector<const Operator*> by_name = {};
  std::vector<std::shared_ptr<const Operator>> added = {};
};

Registry own_operators() {
  Registry made;
  std::vector<const Operator*>& all = made.by_name;
  for (const auto family : k_families) {
    const detail::OperatorList list = family();
    all.insert(all.end(), list.begin(), list.end());
  }
  std::sort(all.begin(), all.end(), [](const Operator* a, const Operator* b) { return comes_before(a, b->name); });
  return made;
}

// Never destroyed: threads may ask to the very end.
detail::Grown<Registry>& registry() {
  static auto* const made = new detail::Grown<Registry>(own_operators());
  return *made;
}

}  // namespace

std::vector<const Operator*> operators() {
  return registry().now().by_name;
}

const Operator* find_operator(std::string_view given) {
  const std::string_view name = own_name(given);
  const std::vector<const Operator*>& all = registry().now().by_name;
  const auto at = std::lower_bound(all.begin(), all.end(), name, comes_before);
  return at == all.end() || (*at)->name != name ? nullptr : *at;
}

void register_operator(std::shared_ptr<const Operator> op) {
  require(op != nullptr && op->name != nullptr && *op->name != '\0', [] {
    return "register_operator: an operator has no name";
  });
  require(std::string_view(op->name).find_first_of("= \t\n\"") == std::string_view::npos, [&] {
    return message(
        "register_operator: \"", op->name, "\" is no name: graphs as text have no '=', quotes or spaces in names");
  });
  const bool computes = !op->kernels.empty() || op->issue != nullptr || op->composition != nullptr;
  require(computes || op->view != nullptr, [&] {
    return message("register_operator: ", op->name, " has no kernel, composition or view");
  });
  require(op->view != nullptr || op->infer != nullptr, [&] {
    const char* const what = op->composition != nullptr ? "a composition" : "a kernel";
    return message("register_operator: ", op->name, " has ", what, " but no inference");
  });
  require(op->attributes != nullptr, [&] {
    return message(
        "register_operator: ", op->name, " names no struct of attributes (&attribute_type<NoAttributes> for none)");
  });
  const bool writes = op->outputs != 0 || op->mutates != nullptr || op->mutated_inputs != k_none;
  require(op->inputs >= -1 && op->outputs >= -1 && writes, [&] {
    return message(
        "register_operator: ", op->name, " cannot have ", op->inputs, " inputs and ", op->outputs, " outputs");
  });
  const auto check_mask = [&](const char* what, Mask mask, int count) {
    require(count < 0 || count > 31 || mask == k_all || mask >> count == 0, [&] {
      return message(
          "register_operator: ",
          op->name,
          "'s ",
          what,
          " names number ",
          std::bit_width(mask) - 1,
          ", from 0 on, of ",
          count);
    });
  };
  check_mask("saved_inputs", op->saved_inputs, op->inputs);
  check_mask("mutated_inputs", op->mutated_inputs, op->inputs);
  check_mask("saved_outputs", op->saved_outputs, op->outputs);
  registry().add([&](Registry& all) {
    const std::string_view name = op->name;
    const auto at = std::lower_bound(all.by_name.begin(), all.by_name.end(), name, comes_before);
    require((at == all.by_name.end() || (*at)->name != name) && own_name(name) == name, [&] {
      return message("register_operator: there is an operator ", name, " already");
    });
    all.by_name.insert(at, op.get());
    all.added.push_back(op);
  });
}

}  // namespace sluice
