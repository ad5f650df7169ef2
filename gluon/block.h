#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/init.h>
#include <sluice/gluon/parameter.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {

/// How load_parameters() treats files that do not match.
struct LoadOptions {
  std::optional<Device> device = {};  // default: where each parameter is, or was asked to be
  bool allow_missing = false;         // parameters that the file does not name stay as they are
  bool ignore_extra = false;          // names in the file that no parameter has are skipped
  bool cast_dtype = false;            // values of another type are cast; otherwise they are an error
};

/// A layer, or a network of layers: parameters, children, and a forward. Move-only. Parameters and children live on
/// the heap, so references to them stay valid when the block moves. A block of one's own declares what it has once,
/// in its constructor:
///
///     class Residual : public gluon::Block {
///      public:
///       explicit Residual(std::int64_t units)
///           : body_(child("body", nn::Dense(units, {.activation = "relu"}))),
///             scale_(parameter("scale", {.shape = {1}, .init = gluon::init::One()})) {}
///       NDArray forward(const NDArray& x) override { return x + scale_.data() * body_(x); }
///
///      private:
///       nn::Dense& body_;
///       gluon::Parameter& scale_;
///     };
///
/// Nothing here blocks but save_parameters() and load_parameters(). Forward may run on several threads once the
/// parameters are initialised and their shapes known.
class SLUICE_API Block {
 public:
  Block();
  Block(Block&&) noexcept;
  Block& operator=(Block&&) noexcept;
  virtual ~Block();

  NDArray operator()(const NDArray& x) { return forward(x); }
  virtual NDArray forward(const NDArray& x) = 0;

  /// Initialises every parameter that has no initialiser of its own by `init`, on `device`. Parameters whose shape
  /// is not known yet follow at the first forward. Initialised ones stay unless `force_reinit`.
  void initialize(const init::Initializer& init = init::Uniform(), Device device = cpu(), bool force_reinit = false);

  /// This block's parameters and its children's, named by their path: "0.weight", "body.scale". `select` is a
  /// regular expression (ECMAScript) that names must contain; ValueError if it is none.
  ParameterDict collect_params(std::string_view select = {}) const;
  /// Those of this block alone.
  const Parameter& own_parameter(std::string_view name) const;

  std::size_t num_children() const noexcept;
  /// Throws ValueError for a name (IndexError for a number) that is not there.
  Block& child_at(std::size_t index) const;
  Block& child_named(std::string_view name) const;

  /// Calls `visit` on every descendant, children before their parents, and on this block last.
  void apply(const std::function<void(Block&)>& visit);

  /// Uses the parameters of `shared` in place of this block's parameters of the same (path) names, from now on: two
  /// blocks then train one weight. Throws ShapeError where shapes cannot agree, ValueError if no name is common.
  void share_parameters(const ParameterDict& shared);

  /// Writes all parameters as NumPy's .npz under the names of collect_params(). The host waits for the values.
  /// Throws ValueError for a parameter without a value, FileError.
  void save_parameters(const std::filesystem::path& path) const;
  /// Reads what save_parameters() wrote, and initialises parameters that were not. Either all parameters are set or
  /// none. Throws FileError, ValueError for missing or extra names, ShapeError, DTypeError, each naming the file.
  void load_parameters(const std::filesystem::path& path, const LoadOptions& options = {});

  /// Changes the type of all parameters. Layers that need another type for some override it.
  virtual void cast(DType dtype);
  /// Moves all parameters.
  void to(Device device);
  void zero_grad();

 protected:
  /// Declares a parameter. The reference lives as long as the block, wherever it moves. Throws ValueError if the
  /// name is taken or contains a dot.
  Parameter& parameter(const std::string& name, ParameterOptions options);
  /// Takes a child. The reference lives as long as the block, wherever it moves. Throws as parameter() does.
  template <std::derived_from<Block> B>
  B& child(const std::string& name, B&& block) {
    return static_cast<B&>(child(name, std::make_shared<B>(std::move(block))));
  }
  Block& child(const std::string& name, std::shared_ptr<Block> block);

 private:
  struct Members;
  Members& members() const;
  void collect(const std::string& prefix, ParameterDict& into) const;

  std::unique_ptr<Members> members_;
};

}  // namespace sluice::gluon
