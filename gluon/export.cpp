#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/file_text.h>
#include <sluice/gluon/symbol_block.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/file.h>
#include <sluice/operator/graph/file.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::gluon {

namespace {

using graph::Graph;

/// A network's forward, and the arrays that it uses beside its inputs.
struct Traced {
  Graph graph;
  std::vector<NDArray> constants;

  std::vector<ArraySpec> specs() const {
    std::vector<ArraySpec> made;
    for (const graph::ValueId input : graph.inputs)
      made.push_back(graph.values[input].spec);
    return made;
  }
};

Traced traced(const Block& net, const std::vector<ArraySpec>& specs, SourceLocation site) {
  graph::Tracer tracer;
  Arrays inputs;
  for (const ArraySpec& spec : specs)
    inputs.push_back(tracer.input(spec));
  const Graph whole = tracer.trace([&] { return net.call(inputs, site); });
  Traced made;
  made.graph = with_constants_as_inputs(without_dead_code(whole), made.constants);
  return made;
}

bool is_same_place(const NDArray& a, const NDArray& b) {
  const auto &x = *a.object(), &y = *b.object();
  return x.buffer == y.buffer && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
         x.strides == y.strides;
}

bool is_same_array(const NDArray& a, const NDArray& b) {
  if (is_same_place(a, b))
    return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.device() != b.device())
    return false;
  const auto bytes_of = [](const NDArray& array) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(array.size()) * size_of(array.dtype()));
    array.read_out(bytes.data(), array.dtype(), array.size());
    return bytes;
  };
  return bytes_of(a) == bytes_of(b);
}

// Traces a batch of another size, and compares: so a number that forward took from the shape shows.
bool is_for_any_batch(
    const Block& net,
    const Traced& known,
    std::vector<ArraySpec> specs,
    const std::vector<bool>& batch,
    SourceLocation site) {
  try {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (batch[i])
        specs[i].shape[0] = 2 * specs[i].shape[0] + 1;
    }
    const Traced other = traced(net, specs, site);
    const bool same_constants = std::equal(
        known.constants.begin(), known.constants.end(), other.constants.begin(), other.constants.end(), is_same_array);
    return same_constants &&
           is_same_program(with_inputs(known.graph, other.specs()), with_inputs(other.graph, other.specs()));
  } catch (const std::exception&) {  // of forward's own too
    return false;
  }
}

std::vector<bool> batch_axes(const std::vector<ArraySpec>& specs) {
  std::vector<bool> batch;
  for (const ArraySpec& spec : specs)
    batch.push_back(!spec.shape.empty() && !specs[0].shape.empty() && spec.shape[0] == specs[0].shape[0]);
  return batch;
}

std::vector<std::string> names_for(
    const std::vector<std::string>& given, std::size_t count, const std::string& what, const char* of) {
  require(given.empty() || given.size() == count, [&] {
    return message("export_to: ", given.size(), " names of ", of, " for ", count);
  });
  std::vector<std::string> names = given;
  for (std::size_t i = 0; names.size() < count; ++i)
    names.push_back(count == 1 ? what : what + std::to_string(i));
  return names;
}

/// Names of a network's arrays: parameters have theirs, others "constant.0" and so on.
class Names {
 public:
  explicit Names(ParameterDict parameters) : parameters_(std::move(parameters)) {
    const auto is_taken = [&](const auto& entry) {
      return entry.first == prefix_ || entry.first.starts_with(prefix_ + '.');
    };
    while (std::any_of(parameters_.begin(), parameters_.end(), is_taken))
      prefix_ += '_';
  }

  graph::FileParameter name(const NDArray& array) {
    for (const auto& [name, parameter] : parameters_) {
      if (parameter.is_initialized() && is_same_place(parameter.data(), array))
        return {name, parameter.grad_req(), parameter.lr_mult(), parameter.wd_mult()};
    }
    return {.name = prefix_ + '.' + std::to_string(constants_++)};
  }
  /// The place among the network's parameters; behind them for others.
  std::size_t order_of(const std::string& name) const {
    return static_cast<std::size_t>(
        std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& entry) { return entry.first == name; }) -
        parameters_.begin());
  }

 private:
  ParameterDict parameters_;
  std::string prefix_ = "constant";
  std::size_t constants_ = 0;
};

// Gives the arrays their names, and puts them in the order of the network's parameters.
std::map<std::string, NDArray> name_constants(const Block& net, const Traced& traced, graph::GraphFile& file) {
  struct Named {
    graph::FileParameter parameter;
    NDArray array;
    graph::ValueId value;
    std::size_t order;
  };
  Names names(net.collect_params());
  const std::size_t inputs = file.inputs.size();
  std::vector<Named> all;
  for (std::size_t i = 0; i < traced.constants.size(); ++i) {
    graph::FileParameter parameter = names.name(traced.constants[i]);
    const std::size_t order = names.order_of(parameter.name);
    all.push_back({std::move(parameter), traced.constants[i], traced.graph.inputs[inputs + i], order});
  }
  std::stable_sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.order < b.order; });
  std::map<std::string, NDArray> arrays;
  file.graph.inputs.resize(inputs);
  for (const Named& one : all) {
    arrays.emplace(one.parameter.name, one.array);
    file.graph.inputs.push_back(one.value);
    file.parameters.push_back(one.parameter);
  }
  return arrays;
}

void append_layers(std::vector<graph::FileLayer>& layers, const Block& block, const std::string& name) {
  const auto* const imported = dynamic_cast<const SymbolBlock*>(&block);
  if (imported != nullptr && !imported->layers().empty()) {  // what it was before it was in a file
    for (graph::FileLayer layer : imported->layers()) {
      layer.name = name + (name.empty() || layer.name.empty() ? "" : ".") + layer.name;
      layers.push_back(std::move(layer));
    }
    return;
  }
  layers.push_back({name, block.type_name(), block.options()});
  if (imported != nullptr)  // what is in it holds parameters by their paths
    return;
  for (std::size_t i = 0; i < block.num_children(); ++i) {
    const Child<> child = block.child_at(i);
    append_layers(layers, *child, name.empty() ? child.name() : name + '.' + child.name());
  }
}

void complete(const Block& net, const Arrays& inputs, SourceLocation site) {
  const ParameterDict parameters = net.collect_params();
  if (!std::all_of(parameters.begin(), parameters.end(), [](const auto& one) { return one.second.is_initialized(); }))
    (void)net.call(inputs, site);
}

std::filesystem::path with_suffix(std::filesystem::path prefix, const char* suffix) {
  return prefix += suffix;
}

}  // namespace

void Block::export_to(
    const std::filesystem::path& prefix,
    const Arrays& inputs,
    const ExportOptions& options,
    SourceLocation site) const {
  const autograd::ModeScope predicting(false, false);
  detail::called("export_to " + prefix.string(), site, [&] {
    std::vector<ArraySpec> specs;
    for (const NDArray& input : inputs) {
      require(input.defined(), [] { return "export_to: an example is an undefined NDArray"; });
      specs.push_back({input.shape(), input.dtype(), input.device()});
    }
    complete(*this, inputs, site);
    const Traced known = traced(*this, specs, site);
    graph::GraphFile file{.graph = known.graph, .notes = options.notes};
    append_layers(file.layers, *this, "");
    const std::vector<bool> batch = batch_axes(specs);
    const bool any = is_for_any_batch(*this, known, specs, batch, site);
    const std::vector<std::string> names = names_for(options.inputs, inputs.size(), "data", "inputs");
    for (std::size_t i = 0; i < names.size(); ++i)
      file.inputs.push_back({names[i], any && batch[i]});
    file.outputs = names_for(options.outputs, known.graph.outputs.size(), "output", "outputs");
    const std::map<std::string, NDArray> arrays = name_constants(*this, known, file);
    (void)to_json(file);  // throws before anything is written
    // Both are written before either takes its place: an export that fails leaves the one that was there.
    write_whole(with_suffix(prefix, ".json"), [&](const std::filesystem::path& json) {
      write_whole(with_suffix(prefix, ".npz"), [&](const std::filesystem::path& npz) {
        save(npz, arrays, {});
        file.parameter_checksum = detail::checksum_of_file(npz);
        detail::write_text(json, to_json(file));
      });
    });
  });
}

}  // namespace sluice::gluon
