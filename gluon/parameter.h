#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/init.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {

class Block;

/// What a layer says of a parameter when it declares it.
struct ParameterOptions {
  Shape shape = {};  // an extent of 0 is not known yet: the first forward completes it
  DType dtype = float32;
  GradReq grad_req = GradReq::write;  // null: not trained (running statistics)
  init::Initializer init = {};        // empty: the one that initialize() is given
  double lr_mult = 1;                 // factors on the optimizer's learning rate and weight decay
  double wd_mult = 1;
};

/// A weight of a layer: a name, an array and its gradient. A handle: copies name the same parameter, which is how
/// layers share weights. Nothing here blocks, but that of several first forwards at once all wait for the one that
/// initialises; otherwise one thread at a time may change a parameter, while nobody uses it.
class SLUICE_API Parameter {
 public:
  /// Throws ValueError for an empty name.
  Parameter(std::string name, ParameterOptions options);

  /// The name inside its layer ("weight").
  const std::string& name() const& noexcept;
  /// Extents that are not known yet are 0.
  const Shape& shape() const& noexcept;
  // Of a temporary handle, which may be the last: copies.
  std::string name() && { return std::as_const(*this).name(); }
  Shape shape() && { return std::as_const(*this).shape(); }
  NDArray data() && { return std::as_const(*this).data(); }
  DType dtype() const noexcept;
  GradReq grad_req() const noexcept;
  void set_grad_req(GradReq req) const;
  /// Whether its layer declared it to be trained: running statistics are not.
  bool is_trainable() const noexcept;
  double lr_mult() const noexcept;
  double wd_mult() const noexcept;
  /// Factors on what the optimizer uses. Throws ValueError unless the factor is finite and not negative.
  void set_lr_mult(double factor) const;
  void set_wd_mult(double factor) const;

  /// Makes the array on `device` and fills it: by the parameter's own initialiser, else by `fallback` (may be
  /// empty only if it has its own). With a shape that is not known yet this happens in complete(). A parameter that
  /// is initialised already stays as it is unless `force_reinit`.
  void initialize(
      const init::Initializer& fallback,
      Device device,
      bool force_reinit = false,
      SourceLocation site = SourceLocation::current()) const;
  bool is_initialized() const noexcept;
  /// Whether it has an initialiser of its own.
  bool has_initializer() const noexcept;
  /// initialize() was called and waits for the shape.
  bool is_deferred() const noexcept;
  /// Fills in the extents that were not known, and initialises what waited for them. Throws ShapeError if a known
  /// extent differs, ValueError if initialize() was not called. Any number of threads may do so at once.
  void complete(const Shape& shape) const;

  /// The array. Throws ValueError if it is not initialised, saying what to do.
  const NDArray& data() const&;
  /// Its gradient. Throws ValueError if not initialised or not trained.
  NDArray grad() const;
  /// Where the array lives, or will. Throws ValueError if initialize() was not called.
  Device device() const;

  /// Copies `value` in, cast and moved as needed; initialises the parameter if it was not (on the device that
  /// initialize() named, else on the value's). Throws ShapeError.
  void set_data(const NDArray& value) const;
  void zero_grad() const;
  /// Changes the type; the gradient starts anew.
  void cast(DType dtype) const;
  /// Moves the array; the gradient starts anew.
  void to(Device device) const;
  /// The same by Gluon's name.
  void reset_device(Device device) const { to(device); }

  /// True if backward wrote the gradient since the last mark_grad_used() (or since it was made).
  bool grad_is_fresh() const;
  void mark_grad_used() const;

  /// Throws ShapeError if `other` cannot stand in for this parameter.
  void check_shared(const Parameter& other) const;
  /// True when both handles name the same parameter.
  bool same(const Parameter& other) const noexcept { return state_ == other.state_; }

 private:
  friend class Block;  // which knows the path to the parameter
  friend class ParameterDict;
  friend class Trainer;
  struct State;
  void initialize_as(
      const std::string& path,
      const init::Initializer& fallback,
      Device device,
      bool force_reinit,
      SourceLocation site) const;
  void adopt(NDArray data) const;
  /// What set_data() and to() need memory for, made beforehand: then nothing stops them halfway.
  struct Change {
    NDArray value = {};
    bool in_place = false;  // copied into the array that is there; otherwise it is the array from then on
  };
  Change prepare(const NDArray& value, std::optional<Device> device) const;
  void carry_out(const Change& change) const;
  NDArray made_of(const NDArray& value, Device device) const;
  void put(NDArray data) const;
  void note_grad() const;
  /// The backward (ndarray/detail/deposits.h) whose gradient was divided by the scale of its loss since; none: it has
  /// that scale, if any. Forgotten once the gradient is used, zeroed or made anew.
  std::optional<std::uint64_t>& unscaled_deposit() const noexcept;
  void fill(const std::string& path, const init::Initializer& init, Device device, SourceLocation site) const;

  const std::string& known_as() const noexcept { return path_ != nullptr ? *path_ : name(); }

  std::shared_ptr<State> state_;
  std::shared_ptr<const std::string> path_;  // in the dictionary that the handle came from, for messages
};

/// Parameters by their full names ("0.weight"), in the order of the layers.
class SLUICE_API ParameterDict {
 public:
  using Entry = std::pair<std::string, Parameter>;

  /// Throws ValueError if the name is taken.
  void insert(std::string name, Parameter parameter);
  /// Empty if there is none.
  std::optional<Parameter> find(std::string_view name) const;
  bool contains(std::string_view name) const noexcept;
  /// Throws ValueError that lists the names there are.
  Parameter operator[](std::string_view name) const;
  /// "a, b, c", for messages.
  std::string names() const;
  /// Sets "lr_mult" or "wd_mult" of all (Gluon's setattr). Throws ValueError for another name, and for a factor that is
  /// not finite or negative, before any is set: net.collect_params("^body").setattr("lr_mult", 0.1).
  void setattr(std::string_view name, double value) const;
  /// Sets "grad_req" of all that a layer declared to be trained; GradReq::null freezes them:
  /// net.collect_params("^body").setattr("grad_req", GradReq::null). Throws ValueError for another name.
  void setattr(std::string_view name, GradReq value) const;
  /// Moves all.
  void reset_device(Device device) const;

  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }
  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }

 private:
  const Entry* entry(std::string_view name) const noexcept;

  std::vector<Entry> entries_;
};

}  // namespace sluice::gluon
