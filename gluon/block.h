#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block_options.h>
#include <sluice/gluon/child.h>
#include <sluice/gluon/hook.h>
#include <sluice/gluon/hybrid.h>
#include <sluice/gluon/init.h>
#include <sluice/gluon/parameter.h>
#include <sluice/gluon/summary.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {

/// How load_parameters() treats files that do not match.
struct LoadOptions {
  std::optional<Device> device = {};  // default: where each parameter is, or was asked to be
  bool allow_missing = false;         // parameters that the file does not name stay as they are
  bool ignore_extra = false;          // names in the file that no parameter has are skipped
  bool cast_dtype = false;            // values of another type are cast; otherwise they are an error
  bool in_order = false;              // arrays by other names than the network's in the order of collect_params()
};

/// What export_to() writes beside the network.
struct ExportOptions {
  std::vector<std::string> inputs = {};           // names; default: "data", of several "data0", "data1", ..
  std::vector<std::string> outputs = {};          // names; default: "output", of several "output0", ..
  std::map<std::string, std::string> notes = {};  // anything: SymbolBlock::notes() gives it back
};

/// A layer, or a network of layers, or a loss: parameters, children, and a forward. It can be moved, when it is made,
/// but not assigned: replace() puts another block in the place of a child. Parameters and children live on the heap, so
/// what names them stays valid when the block moves. A block of one's own declares what it has once, in its
/// constructor:
///
///     class Residual : public gluon::Block {
///      public:
///       explicit Residual(std::int64_t units)
///           : body_(child("body", nn::Dense(units, {.activation = "relu"}))),
///             scale_(parameter("scale", {.shape = {1}, .init = gluon::init::One()})) {}
///
///      protected:
///       NDArray forward(const NDArray& x) const override { return x + scale_.data() * body_(x); }
///
///      private:
///       gluon::Child<nn::Dense> body_;
///       gluon::Parameter& scale_;
///     };
///
/// Errors of a layer, thrown to the caller or found at a wait, name its path in the network ("layer 2 (Dense)") and the
/// line on which the user called it. Nothing here blocks but save_parameters() and load_parameters(). Forward may run
/// on several threads at once, the first one included; whatever changes the block may not run beside it.
class SLUICE_API Block {
 public:
  Block& operator=(Block&&) = delete;  // what holds children would be cut off from them
  virtual ~Block();

  /// Runs the block: one array in, one out. Throws ValueError if it was moved from, or takes or gives other numbers of
  /// arrays.
  NDArray operator()(const NDArray& x, SourceLocation site = SourceLocation::current()) const;
  /// Two arrays in, one out, as losses have it.
  NDArray operator()(const NDArray& x, const NDArray& y, SourceLocation site = SourceLocation::current()) const;
  /// Any number of arrays in and out.
  Arrays operator()(std::initializer_list<NDArray> inputs, SourceLocation site = SourceLocation::current()) const;
  Arrays call(std::span<const NDArray> inputs, SourceLocation site = SourceLocation::current()) const;

  /// Initialises every parameter that has no initialiser of its own by `init`, on `device`. Parameters whose shape
  /// is not known yet follow at the first forward. Initialised ones stay unless `force_reinit`.
  void initialize(
      const init::Initializer& init = init::Uniform(),
      Device device = cpu(),
      bool force_reinit = false,
      SourceLocation site = SourceLocation::current());

  /// The same with an initialiser for each parameter by its name. Throws ValueError, before anything is initialised,
  /// for one that needs it and that no pattern matches.
  void initialize(
      const init::Mixed& init,
      Device device = cpu(),
      bool force_reinit = false,
      SourceLocation site = SourceLocation::current());

  /// The same with values that were saved (MXNet's init.Load): each parameter by its name, others by load's fallback.
  /// Throws ValueError for one that has neither, ShapeError, before anything is initialised.
  void initialize(
      const init::Load& init,
      Device device = cpu(),
      bool force_reinit = false,
      SourceLocation site = SourceLocation::current());

  /// This block's parameters and its children's, named by their path: "0.weight", "body.scale". `select` is a
  /// regular expression (ECMAScript) that names must contain; ValueError if it is none.
  ParameterDict collect_params(std::string_view select = {}) const;
  /// One of this block alone. Throws ValueError if there is none of that name.
  Parameter own_parameter(std::string_view name, SourceLocation site = SourceLocation::current()) const;

  std::size_t num_children() const noexcept;
  /// Throws ValueError for a name (IndexError for a number) that is not there.
  Child<> child_at(std::size_t index, SourceLocation site = SourceLocation::current()) const;
  Child<> child_named(std::string_view name, SourceLocation site = SourceLocation::current()) const;

  /// Puts `block` in the place of the child `name` and returns what stood there; all that names the child means the new
  /// one from then on. A trainer made before has the old one's parameters. Throws ValueError if there is no such child,
  /// for null, and for a block that is, or holds, this one.
  std::shared_ptr<Block> replace(
      std::string_view name, std::shared_ptr<Block> block, SourceLocation site = SourceLocation::current());
  template <std::derived_from<Block> B>
  requires(!std::is_lvalue_reference_v<B>) std::shared_ptr<Block> replace(
      std::string_view name, B&& block, SourceLocation site = SourceLocation::current()) {
    check_replaceable(name, block, typeid(B), site);  // before the block is moved
    return replace(name, std::make_shared<B>(std::move(block)), site);
  }

  /// Calls `visit` on every descendant, children before their parents, and on this block last.
  void apply(const std::function<void(Block&)>& visit);

  /// Uses the parameters of `shared` in place of this block's parameters of the same (path) names, from now on: two
  /// blocks then train one weight. Throws ShapeError where shapes cannot agree, ValueError if no name is common.
  void share_parameters(const ParameterDict& shared);

  /// Writes all parameters under the names of collect_params(): as MXNet's where the name ends in ".params", as
  /// ".safetensors", else as NumPy's .npz (gluon/formats/formats.h). The host waits for the values. Throws ValueError
  /// for a parameter without a value, FileError.
  void save_parameters(const std::filesystem::path& path, SourceLocation site = SourceLocation::current()) const;
  /// Reads what save_parameters(), MXNet or others wrote in these formats, told by what the file holds, and initialises
  /// parameters that were not. Either all parameters are set or none. With `in_order` a file of MXNet's of the same
  /// network, whatever it calls its layers, fits a model of model_zoo::vision. Throws FileError, ValueError for missing
  /// or extra names, and for an .npz file, which has no order, of others, ShapeError, DTypeError, each naming the file.
  void load_parameters(
      const std::filesystem::path& path,
      const LoadOptions& options = {},
      SourceLocation site = SourceLocation::current());

  /// Sets parameters to arrays of their names, as load_parameters() those of a file (Gluon's load_dict); `origin` is
  /// what messages call them. Does not wait. Throws as load_parameters(), and ValueError for an undefined array.
  void load_dict(
      const std::map<std::string, NDArray>& arrays,
      const LoadOptions& options = {},
      std::string_view origin = "load_dict",
      SourceLocation site = SourceLocation::current());

  /// From now on calls of this block run as graphs: forward() is traced once for each shape, type and device of its
  /// inputs, mode and precision, optimised, and replayed, on a GPU as one CUDA graph; a recorded call is one node of
  /// the tape whose gradient is a second graph. Batches of other sizes share a trace (options.batch_sizes) unless
  /// forward() asks how large they are. Values, gradients and random numbers are what they are without, to the
  /// last bit unless options.plan.rounding allows less, running statistics too; gradients that an array gets from
  /// several calls are added in another order, and a result that is a view of an input is a copy. What forward() does
  /// beside calling operators happens when it is traced alone; where it looks at values, tracing throws ValueError
  /// (cond and while_loop are for that). Children need not be hybridized: they are part of the graph. Run by hand as
  /// before: calls before all parameters have their shapes, a forward() that writes its inputs, one that writes in
  /// place what a gradient needs (backward() says so where that gradient is asked for), one whose gradients go to
  /// arrays that are neither inputs nor parameters, or that says itself what they are (an autograd::Node of its own).
  /// hybridize(false) ends it.
  ///
  /// What else is seen of a recorded call: all its gradients come at once, so that AutogradError says of each what any
  /// needs and was written meanwhile; for some results alone, or as a graph, they need every parameter that forward()
  /// read as it was. Results are arrays of their own: of an input or a trained parameter a copy of the handle, without
  /// its grad(), of a running statistic what it was. An input that views memory which forward() writes is read as it
  /// was before. Writes in place that recording refuses by hand (other arrays see the memory) are taken. Branches and
  /// loops that are not taken give zeros as gradients (operator/control/control.h).
  void hybridize(bool active = true, const HybridOptions& options = {});
  bool is_hybridized() const;
  /// Programs that were traced since hybridize(); what was made of one for a batch of another size is none.
  std::size_t hybrid_traces() const;
  /// The graph that ran last, or null: for printing it, its memory. Good until the next call of the block.
  const graph::Plan* hybrid_plan() const;
  /// Why the last call ran by hand, or is more than one CUDA graph: the operator, its layer, the user's line. "by hand:
  /// forward writes an array that it is given: add (layer 2 (Mine), called at train.cpp:31)". Empty where all is one
  /// graph, on a CPU as far as it runs as a graph at all, and of a block that is not hybridized or was not called. What
  /// a capture refuses a plan knows after its first runs. Waits for runs that are being pushed; not for bodies.
  std::string hybrid_reason() const;

  /// The layers with the shapes that they give, parameters, and operations of a forward in predict mode (graph::flops),
  /// for inputs of which shape, type and device count: abstract_array() will do. Nothing is computed, but parameters
  /// that wait for their shape get it, and are initialised, as by a first forward. Throws what forward throws, and
  /// ValueError where it looks at values.
  ///
  ///     std::cout << net.summary(x);
  Summary summary(const NDArray& x, SourceLocation site = SourceLocation::current()) const;
  Summary summary(const Arrays& inputs, SourceLocation site = SourceLocation::current()) const;

  /// Writes what forward computes in predict mode as a graph, PREFIX.json, and the parameters that it uses under their
  /// names of collect_params(), with other arrays of the network's own, as PREFIX.npz: SymbolBlock::imports() runs them
  /// without this class (docs/graph_file.md). `inputs` are examples, of which shape, type and device count. The first
  /// axis of those that share the first one's extent is taken as the batch: where forward proves to be the same program
  /// for a batch of another size, so will be what is imported. What forward does beside calling operators is done once
  /// or twice here and not again. Parameters whose shape is not known yet get it by a forward. The host waits for the
  /// values. Throws what forward throws, ValueError where it looks at values, UnsupportedError where it writes to
  /// parameters or other arrays that stay, FileError.
  void export_to(
      const std::filesystem::path& prefix,
      const Arrays& inputs,
      const ExportOptions& options = {},
      SourceLocation site = SourceLocation::current()) const;

  /// Functions that see each call of this block: before forward, with what it is given; behind it, with what it gave
  /// too; and each operator that it and the layers inside it call, with what that gives, with `monitor_all` with what
  /// it is given too (Gluon's names; docs there apply). They look and change nothing; what they throw, the call throws.
  /// The arrays need not be computed yet: reading one waits for it. They run on the thread that calls the block,
  /// several at once where threads do, in the order in which they were registered, and record what they call as the
  /// caller does. They stay until the handle says otherwise. Throws ValueError for an empty function.
  ///
  /// A hybridized block calls its own forward hooks around its graph, at each call. Where it has op hooks, or a layer
  /// inside it has any hook, it runs by hand as long as they are there: Gluon's would not see those layers. Values are
  /// the same, up to rounding where a block computes at once what hooked layers compute one by one
  /// (nn::MultiHeadAttention). What is traced calls no hooks, for its arrays have no values: TrainStep, Predictor,
  /// export_to(), summary(), bodies of loops. Registering changes the block, so that nobody may call it meanwhile;
  /// detaching does not.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  HookHandle register_op_hook(OpHook hook, bool monitor_all = false);

  /// What the block's class is called: "Dense".
  std::string type_name() const;
  /// What it was made with, by name, as layers say it (note_options()); sizes of inputs that the first call says are 0.
  std::vector<NamedValue> options() const;
  /// The same as text, without what is as it is by default: "784 -> 128, activation=relu".
  std::string options_text() const;

  /// Sets "lr_mult" or "wd_mult", or "grad_req", of all parameters (Gluon's setattr): see ParameterDict::setattr().
  void setattr(std::string_view name, double value);
  void setattr(std::string_view name, GradReq value);

  /// Changes the type of all parameters. Layers that need another type for some override it.
  virtual void cast(DType dtype);
  /// Moves all parameters.
  void to(Device device);
  /// The same by Gluon's name.
  void reset_device(Device device) { to(device); }
  void zero_grad();

 protected:
  Block();
  Block(Block&&) noexcept;

  /// What a block of one array in and one out computes. Called by operator() alone.
  virtual NDArray forward(const NDArray& x) const;
  /// What any other block computes; calls forward() for one array if it is not overridden. An override says how many
  /// it takes: require_inputs() does.
  virtual Arrays forward_all(std::span<const NDArray> inputs) const;
  /// Throws ValueError, which names the block's type, unless there are `wanted` inputs.
  void require_inputs(std::span<const NDArray> inputs, std::size_t wanted) const;

  /// For constructors: adds to options(). Of a class that others are derived from, theirs come behind.
  void note_options(OptionNotes notes);
  /// Declares a parameter. The reference lives as long as the block, wherever it moves. Throws ValueError if the
  /// name is taken or contains a dot.
  Parameter& parameter(const std::string& name, ParameterOptions options);
  /// Takes a child. Throws as parameter() does, and ValueError for a block that is, or holds, this one.
  template <std::derived_from<Block> B>
  requires(!std::is_lvalue_reference_v<B>) Child<B> child(const std::string& name, B&& block) {
    check_new(name);  // before the block is moved
    return child(name, adopt(std::move(block)));
  }
  template <std::derived_from<Block> B>
  Child<B> child(const std::string& name, std::shared_ptr<B> block) {
    return Child<B>(add_child(name, std::move(block)));
  }
  /// For a block that computes at once what it would have several children compute: the child, which counts as called,
  /// where it is of that very type and nobody looks at its calls, by hooks or for a summary(); otherwise null.
  template <std::derived_from<Block> B>
  static const B* unwatched(const Child<B>& child) {
    return static_cast<const B*>(unwatched(child, typeid(B)));
  }
  /// Runs child number `index`.
  NDArray call_child(std::size_t index, const NDArray& x) const;
  /// The line on which the user called this block, for operators that forward() calls: tasks and errors then name it
  /// instead of a line of forward().
  static SourceLocation call_site() noexcept;

  /// Moves `block` to the heap. Throws ValueError, and moves nothing, if it is, or holds, this block, and if it is of a
  /// type derived from B, which would be cut off.
  template <class B>
  std::shared_ptr<B> adopt(B&& block) const {
    check_adoptable(block, typeid(B));
    return std::make_shared<B>(std::move(block));
  }

 private:
  friend class detail::ChildHandle;
  friend class Server;
  struct Members;
  Members& members() const;
  void collect(const std::string& prefix, ParameterDict& into) const;
  Arrays compute(std::span<const NDArray> inputs) const;
  Arrays compute_watched(std::span<const NDArray> inputs) const;
  Arrays compute_as_asked(std::span<const NDArray> inputs) const;
  template <class List, class Hook>
  HookHandle add_hook(List list, Hook hook);
  bool is_hooked_inside() const;
  static const Block* unwatched(const detail::ChildHandle& child, const std::type_info& type);
  Arrays run(detail::ChildSlot* slot, std::span<const NDArray> inputs, SourceLocation site, bool one = false) const;
  NDArray run_for_one(detail::ChildSlot* slot, std::span<const NDArray> inputs, SourceLocation site) const;
  std::shared_ptr<detail::ChildSlot> add_child(const std::string& name, std::shared_ptr<Block> block);
  void check_new(const std::string& name) const;
  void check_child(const std::string& name, const Block* block) const;
  void check_adoptable(const Block& block, const std::type_info& as) const;
  void check_replaceable(
      std::string_view name, const Block& block, const std::type_info& as, SourceLocation site) const;
  void load_from(const std::filesystem::path& path, const LoadOptions& options);
  void set_parameters(
      const std::string& file, const std::map<std::string, NDArray>& arrays, const LoadOptions& options);
  bool holds(const Block& other) const;

  void make_room_for_plans(std::size_t plans) const;

  std::unique_ptr<Members> members_;
};

/// The block and its children as a tree, a line each (Gluon's repr):
///
///     Sequential(
///       (0): Dense(784 -> 128, activation=relu)
///       (1): Dropout(rate=0.5)
///     )
SLUICE_API std::string to_string(const Block& block);
SLUICE_API std::ostream& operator<<(std::ostream& out, const Block& block);

}  // namespace sluice::gluon
