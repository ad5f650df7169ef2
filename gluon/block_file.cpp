#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/formats/formats.h>

namespace sluice::gluon {

namespace {

using ArraysByName = std::map<std::string, NDArray>;

void check_value(
    const std::string& file,
    const std::string& name,
    const Parameter& parameter,
    const NDArray& value,
    const LoadOptions& options) {
  const Shape& shape = parameter.shape();
  bool fits = shape.ndim() == value.ndim();
  for (int axis = 0; fits && axis < shape.ndim(); ++axis)
    fits = shape[axis] == 0 || shape[axis] == value.shape()[axis];
  require<ShapeError>(fits, [&] {
    return message(
        file,
        ": '",
        name,
        "' has shape ",
        value.shape(),
        ", the network's has ",
        shape,
        "; make the layer as large as it was when the file was written, and replace() it after loading where it is to "
        "be another, or load the file of this network");
  });
  require<DTypeError>(options.cast_dtype || value.dtype() == parameter.dtype(), [&] {
    return message(
        file, ": '", name, "' is ", value.dtype(), ", the network's is ", parameter.dtype(), "; cast_dtype casts it");
  });
}

std::string names_of(const ArraysByName& arrays) {
  constexpr std::size_t k_most = 10;
  std::string joined;
  std::size_t listed = 0;
  for (auto at = arrays.begin(); at != arrays.end() && listed < k_most; ++at, ++listed)
    joined += (joined.empty() ? "" : ", ") + at->first;
  if (arrays.size() > listed)
    joined += message(", .. (", arrays.size(), " in all)");
  return joined.empty() ? "none" : joined;
}

// PyTorch counts in each batch norm how many batches it has seen; nobody else does.
const char* hint_at_torchvision(const ArraysByName& arrays) {
  const bool is_theirs = std::any_of(
      arrays.begin(), arrays.end(), [](const auto& named) { return named.first.ends_with("num_batches_tracked"); });
  return is_theirs ? "; names of PyTorch's: model_zoo::load_torchvision() reads those of torchvision's models" : "";
}

void check_names(
    const std::string& file, const ArraysByName& arrays, const ParameterDict& parameters, const LoadOptions& options) {
  for (const auto& [name, parameter] : parameters) {
    require(options.allow_missing || arrays.contains(name), [&] {
      return message(
          file,
          ": has no parameter '",
          name,
          "', which the network has; the file, of another network perhaps, has ",
          names_of(arrays),
          " (allow_missing leaves such parameters as they are)",
          hint_at_torchvision(arrays));
    });
  }
  for (const auto& [name, array] : arrays) {
    require(options.ignore_extra || parameters.contains(name), [&] {
      return message(
          file,
          ": has a parameter '",
          name,
          "', which the network lacks; the network has ",
          parameters.names(),
          " (ignore_extra skips such parameters)");
    });
  }
}

bool has_these_names(const formats::NamedArrays& arrays, const ParameterDict& parameters) {
  return arrays.size() == parameters.size() &&
         std::all_of(arrays.begin(), arrays.end(), [&](const auto& named) { return parameters.contains(named.first); });
}

/// The arrays of a file under the names that the network has for them: in order where it has others.
ArraysByName by_name(
    const std::string& file,
    const formats::NamedArrays& arrays,
    const ParameterDict& parameters,
    const LoadOptions& options) {
  const bool in_order = options.in_order && !has_these_names(arrays, parameters);
  require(!in_order || formats::keeps_order(file), [&] {
    return message(file, ": arrays of .npz have no order in which they could be taken");
  });
  require(!in_order || arrays.size() == parameters.size(), [&] {
    return message(
        file,
        ": has ",
        arrays.size(),
        " arrays, the network has ",
        parameters.size(),
        " parameters to take them in order");
  });
  ArraysByName named;
  auto parameter = parameters.begin();
  for (const auto& [name, array] : arrays) {
    const std::string& here = in_order ? (parameter++)->first : name;
    require<FileError>(named.emplace(here, array).second, [&, &name = name] {
      return message(file, ": has two arrays '", name, "'");
    });
  }
  return named;
}

}  // namespace

void Block::save_parameters(const std::filesystem::path& path, SourceLocation site) const {
  detail::called("save_parameters of " + path.string(), site, [&] {
    formats::NamedArrays arrays;
    for (const auto& [name, parameter] : collect_params()) {
      require(parameter.is_initialized(), [&, &name = name] {
        return message(
            "save_parameters: parameter '",
            name,
            "' has no value yet; initialize() the network and run it forward once");
      });
      arrays.emplace_back(name, parameter.data());
    }
    formats::save_any(path, arrays);
  });
}

void Block::load_parameters(const std::filesystem::path& path, const LoadOptions& options, SourceLocation site) {
  detail::called("load_parameters of " + path.string(), site, [&] { load_from(path, options); });
}

void Block::load_dict(
    const std::map<std::string, NDArray>& arrays,
    const LoadOptions& options,
    std::string_view origin,
    SourceLocation site) {
  const std::string from(origin);
  // Whom the arrays come from says `origin`: load_torchvision(), too, which nobody knows by this name.
  detail::called(origin == "load_dict" ? from : "the load of " + from, site, [&] {
    for (const auto& [name, array] : arrays) {
      require(array.defined(), [&, &name = name] { return message(from, ": the array '", name, "' is undefined"); });
    }
    set_parameters(from, arrays, options);
  });
}

void Block::load_from(const std::filesystem::path& path, const LoadOptions& options) {
  const std::string file = path.string();
  set_parameters(file, by_name(file, formats::load_any(path), collect_params(), options), options);
}

void Block::set_parameters(
    const std::string& file, const std::map<std::string, NDArray>& arrays, const LoadOptions& options) {
  const ParameterDict parameters = collect_params();
  check_names(file, arrays, parameters, options);
  for (const auto& [name, parameter] : parameters) {
    if (const auto found = arrays.find(name); found != arrays.end())
      check_value(file, name, parameter, found->second, options);
  }
  std::vector<std::pair<Parameter, Parameter::Change>> changes;
  for (const auto& [name, parameter] : parameters) {
    if (const auto found = arrays.find(name); found != arrays.end())
      changes.emplace_back(parameter, parameter.prepare(found->second, options.device));
  }
  for (const auto& [parameter, change] : changes)
    parameter.carry_out(change);
}

}  // namespace sluice::gluon
