#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/file_text.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/symbol_block.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/file.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon {

namespace {

constexpr std::size_t k_most_graphs = 16;

/// A name's part before a dot: holds what the parts behind it name.
struct Holder final : Block {
  using Block::child;
  using Block::parameter;
};

bool same_spec(const ArraySpec& spec, const NDArray& array) {
  return spec.shape == array.shape() && spec.dtype == array.dtype() && spec.device == array.device();
}

ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

// Place i: which input of the file is the caller's i-th.
std::vector<std::size_t> order_of(const std::vector<std::string>& names, const graph::GraphFile& file) {
  std::string known;
  for (const graph::FileInput& input : file.inputs)
    known += (known.empty() ? "'" : ", '") + input.name + "'";
  std::vector<std::size_t> order;
  for (std::size_t i = 0; names.empty() && i < file.inputs.size(); ++i)
    order.push_back(i);
  for (const std::string& name : names) {
    const auto found = std::find_if(
        file.inputs.begin(), file.inputs.end(), [&](const graph::FileInput& input) { return input.name == name; });
    const auto at = static_cast<std::size_t>(found - file.inputs.begin());
    require(found != file.inputs.end() && std::find(order.begin(), order.end(), at) == order.end(), [&] {
      return message("the graph has no input '", name, "', or it is named twice; it has ", known);
    });
    order.push_back(at);
  }
  require(order.size() == file.inputs.size(), [&] {
    return message(order.size(), " inputs are named of ", file.inputs.size(), ": ", known);
  });
  return order;
}

void check_parameter_file(const std::filesystem::path& path, const graph::GraphFile& file, const std::string& graph) {
  const std::uint32_t sum = detail::checksum_of_file(path);
  require<FileError>(sum == file.parameter_checksum, [&] {
    return message(
        path.string(),
        ": is damaged, or not the file that ",
        graph,
        " was exported with (checksum ",
        graph::checksum_text(sum),
        ", not ",
        graph::checksum_text(file.parameter_checksum),
        "); other parameters are read by load_parameters() of what was imported");
  });
}

}  // namespace

struct SymbolBlock::State {
  std::string name;  // of the file
  std::string text;
  Device device;  // that `file` is for
  graph::GraphFile file = {};
  std::vector<std::size_t> order = {};  // of inputs

  std::mutex mutex = {};                                       // of what follows
  std::deque<std::shared_ptr<const graph::Graph>> known = {};  // the one used last comes first
  std::shared_ptr<const std::vector<Parameter>> parameters = {};
  std::uint64_t changes = 0;  // of networks, when the parameters were listed

  // Others may have been put in their place, by share_parameters() say.
  std::shared_ptr<const std::vector<Parameter>> parameters_of(const Block& block) {
    const std::uint64_t now = detail::network_changes();
    const std::lock_guard hold(mutex);
    if (parameters != nullptr && changes == now)
      return parameters;
    const ParameterDict all = block.collect_params();
    std::vector<Parameter> found;
    for (const graph::FileParameter& parameter : file.parameters)
      found.push_back(all[parameter.name]);
    parameters = std::make_shared<const std::vector<Parameter>>(std::move(found));
    changes = now;
    return parameters;
  }

  void check_input(std::size_t at, const NDArray& given, std::optional<std::int64_t>& batch) const {
    const graph::FileInput& input = file.inputs[at];
    const ArraySpec& spec = file.graph.values[file.graph.inputs[at]].spec;
    require<DTypeError>(given.dtype() == spec.dtype, [&] {
      return message(name, ": input '", input.name, "' is ", given.dtype(), ", the graph takes ", spec.dtype);
    });
    Shape wanted = spec.shape;
    if (input.batch && given.ndim() > 0)
      wanted[0] = batch ? *batch : *(batch = given.shape()[0]);
    require<ShapeError>(given.shape() == wanted, [&] {
      return message(
          name,
          ": input '",
          input.name,
          "' has shape ",
          given.shape(),
          ", the graph takes ",
          wanted,
          input.batch ? "; the first extent may be another, the same for all inputs" : "");
    });
  }

  // What lies on a device is said in the file: read again for another one.
  graph::Graph made_for(const Arrays& arrays) const {
    std::optional<std::int64_t> batch;
    for (std::size_t i = 0; i < file.inputs.size(); ++i)
      check_input(i, arrays[i], batch);
    std::vector<ArraySpec> specs;
    for (const NDArray& array : arrays)
      specs.push_back(spec_of(array));
    if (arrays.empty() || arrays[0].device() == device)
      return with_inputs(file.graph, specs);
    return with_inputs(graph::from_json(text, name, arrays[0].device()).graph, specs);
  }

  static bool fits(const graph::Graph& graph, const Arrays& arrays) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (!same_spec(graph.values[graph.inputs[i]].spec, arrays[i]))
        return false;
    }
    return true;
  }

  std::shared_ptr<const graph::Graph> graph_for(const Arrays& arrays) {
    {
      const std::lock_guard hold(mutex);
      const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return fits(*one, arrays); });
      if (found != known.end()) {
        std::rotate(known.begin(), found, found + 1);
        return known.front();
      }
    }
    auto made = std::make_shared<const graph::Graph>(made_for(arrays));
    const std::lock_guard hold(mutex);
    if (known.size() >= k_most_graphs)
      known.pop_back();
    return known.emplace_front(std::move(made));
  }

  SymbolArray array_of(graph::ValueId value, std::string called, bool batch) const {
    const ArraySpec& spec = file.graph.values[value].spec;
    return {std::move(called), spec.shape, spec.dtype, batch};
  }
};

SymbolBlock::SymbolBlock(std::unique_ptr<State> state) : state_(std::move(state)) {}
SymbolBlock::SymbolBlock(SymbolBlock&&) noexcept = default;
SymbolBlock::~SymbolBlock() = default;

// A parameter called "0.body.weight" is "weight" of a block "body" in a block "0".
void SymbolBlock::declare(const std::map<std::string, NDArray>& arrays, const std::string& file) {
  const State& state = *state_;
  std::map<std::string, std::shared_ptr<Holder>> holders;
  const auto holder = [&](const auto& self, const std::string& path) -> Holder* {
    if (path.empty())
      return nullptr;
    std::shared_ptr<Holder>& found = holders[path];
    if (found == nullptr) {
      found = std::make_shared<Holder>();
      const std::size_t dot = path.rfind('.');
      if (dot == std::string::npos)
        child(path, found);
      else
        self(self, path.substr(0, dot))->child(path.substr(dot + 1), found);
    }
    return found.get();
  };
  for (std::size_t i = 0; i < state.file.parameters.size(); ++i) {
    const graph::FileParameter& one = state.file.parameters[i];
    const std::string framed = '.' + one.name + '.';
    require<FileError>(framed.find("..") == std::string::npos, [&] {
      return message(file, ": '", one.name, "' is no name of a parameter");
    });
    const ArraySpec& spec = state.file.graph.values[state.file.graph.inputs[state.file.inputs.size() + i]].spec;
    const auto found = arrays.find(one.name);
    require<FileError>(found != arrays.end(), [&] { return message(file, ": has no array '", one.name, "'"); });
    require<FileError>(found->second.shape() == spec.shape && found->second.dtype() == spec.dtype, [&] {
      return message(
          file,
          ": '",
          one.name,
          "' is ",
          found->second.dtype(),
          ' ',
          found->second.shape(),
          ", the graph takes ",
          spec.dtype,
          ' ',
          spec.shape);
    });
    const ParameterOptions options{
        .shape = spec.shape,
        .dtype = spec.dtype,
        .grad_req = one.grad_req,
        .lr_mult = one.lr_mult,
        .wd_mult = one.wd_mult};
    const std::size_t dot = one.name.rfind('.');
    Parameter made = dot == std::string::npos
                         ? parameter(one.name, options)
                         : holder(holder, one.name.substr(0, dot))->parameter(one.name.substr(dot + 1), options);
    made.set_data(found->second.to(spec.device));
  }
  require<FileError>(arrays.size() == state.file.parameters.size(), [&] {
    return message(file, ": has ", arrays.size(), " arrays, the graph takes ", state.file.parameters.size());
  });
}

SymbolBlock SymbolBlock::imports(
    const std::filesystem::path& graph,
    const std::vector<std::string>& inputs,
    const std::filesystem::path& parameters,
    Device device,
    SourceLocation site) {
  return detail::called("SymbolBlock::imports of " + graph.string(), site, [&] {
    const CallSinkScope nobody(nullptr);
    const autograd::ModeScope unrecorded(false, false);
    std::unique_ptr<State> state(new State{.name = graph.string(), .text = detail::read_text(graph), .device = device});
    state->file = graph::from_json(state->text, state->name, device);
    state->order = order_of(inputs, state->file);
    const std::filesystem::path path =
        parameters.empty() ? std::filesystem::path(graph).replace_extension(".npz") : parameters;
    check_parameter_file(path, state->file, state->name);
    std::vector<std::string> left_out;
    const std::map<std::string, NDArray> arrays =
        state->file.parameters.empty() ? std::map<std::string, NDArray>() : load(path, cpu(), &left_out, {});
    SymbolBlock block(std::move(state));
    try {
      block.declare(arrays, path.string());
    } catch (const ValueError& error) {
      throw FileError(message(block.state_->name, ": parameters: ", error.message()));
    }
    return block;
  });
}

Arrays SymbolBlock::forward_all(std::span<const NDArray> inputs) const {
  State& state = *state_;
  require_inputs(inputs, state.order.size());
  Arrays arrays(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(inputs[i].defined(), [&] { return message("SymbolBlock: input ", i, " is an undefined NDArray"); });
    arrays[state.order[i]] = inputs[i];
  }
  const auto parameters = state.parameters_of(*this);
  for (const Parameter& parameter : *parameters)
    arrays.push_back(parameter.data());
  return evaluate(*state.graph_for(arrays), arrays);
}

std::vector<SymbolArray> SymbolBlock::inputs() const {
  const State& state = *state_;
  std::vector<SymbolArray> made;
  for (const std::size_t at : state.order) {
    const graph::FileInput& input = state.file.inputs[at];
    made.push_back(state.array_of(state.file.graph.inputs[at], input.name, input.batch));
  }
  return made;
}

std::vector<SymbolArray> SymbolBlock::outputs() const {
  const State& state = *state_;
  std::vector<SymbolArray> made;
  for (std::size_t i = 0; i < state.file.outputs.size(); ++i)
    made.push_back(state.array_of(state.file.graph.outputs[i], state.file.outputs[i], false));
  return made;
}

const std::map<std::string, std::string>& SymbolBlock::notes() const noexcept {
  return state_->file.notes;
}

const std::vector<graph::FileLayer>& SymbolBlock::layers() const noexcept {
  return state_->file.layers;
}

const graph::Graph& SymbolBlock::graph() const noexcept {
  return state_->file.graph;
}

void SymbolBlock::cast(DType dtype) {
  throw UnsupportedError(
      message("cast to ", dtype, ": a SymbolBlock has the types of its graph; cast the network before it is exported"));
}

}  // namespace sluice::gluon
