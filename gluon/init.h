#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/rnn/rnn.h>

/// Initialisers: what a parameter holds before training. Random ones draw from the engine's Philox generator on the
/// array's own device, so one seed gives the same numbers on CPU and GPU.
namespace sluice::gluon::init {

/// Anything that writes an array in place; a lambda will do. An empty one means "whatever initialize() was given".
/// It runs with recording off, does not block, and sees the final shape (float32 or the parameter's type).
using Initializer = std::function<void(const NDArray& array)>;

/// Zeros.
class SLUICE_API Zero {
 public:
  void operator()(const NDArray& array) const;
};

/// Ones.
class SLUICE_API One {
 public:
  void operator()(const NDArray& array) const;
};

/// One value everywhere.
class SLUICE_API Constant {
 public:
  explicit Constant(double value) : value_(value) {}
  void operator()(const NDArray& array) const;

 private:
  double value_;
};

/// Uniform in [-scale, scale). The default of initialize(), as in MXNet.
class SLUICE_API Uniform {
 public:
  /// Throws ValueError unless scale is finite and not negative.
  explicit Uniform(double scale = 0.07);
  void operator()(const NDArray& array) const;

 private:
  double scale_;
};

/// Normal with mean 0 and standard deviation `sigma`.
class SLUICE_API Normal {
 public:
  /// Throws ValueError unless sigma is finite and not negative.
  explicit Normal(double sigma = 0.01);
  void operator()(const NDArray& array) const;

 private:
  double sigma_;
};

/// Of Xavier; the names are MXNet's.
struct XavierOptions {
  std::string rnd_type = "uniform";  // or "gaussian"
  std::string factor_type = "avg";   // or "in", "out"
  double magnitude = 3;
};

/// Glorot and Bengio, 2010, as MXNet defines it: scale = sqrt(magnitude / factor), where factor is the number of
/// inputs a unit sees ("in": extent 1 times the window), of outputs ("out": extent 0 times the window) or their
/// mean ("avg"); uniform in [-scale, scale) or normal with deviation scale.
class SLUICE_API Xavier {
 public:
  /// Throws ValueError for unknown names and a magnitude that is not positive.
  explicit Xavier(XavierOptions options = {});
  /// Throws ShapeError for an array of fewer than two axes.
  void operator()(const NDArray& array) const;

 private:
  XavierOptions options_;
};

/// Of MSRAPrelu.
struct MSRAPreluOptions {
  std::string factor_type = "avg";  // or "in", "out"
  double slope = 0.25;              // that PReLU begins with; 0: for relu
};

/// He et al., "Delving deep into rectifiers", 2015, as MXNet defines it: Xavier, gaussian, of magnitude 2 / (1 +
/// slope^2).
class SLUICE_API MSRAPrelu : public Xavier {
 public:
  /// Throws ValueError for an unknown factor_type and a slope that is not finite.
  explicit MSRAPrelu(MSRAPreluOptions options = {});
};

/// Of Orthogonal.
struct OrthogonalOptions {
  double scale = 1.414;              // what the matrix is multiplied by, as in MXNet
  std::string rand_type = "normal";  // of the matrix that it is made of: or "uniform"
};

/// An orthogonal matrix times `scale` (Saxe et al., 2013; MXNet's Orthogonal), the axes behind the first as one: its
/// rows are orthogonal where there are fewer of them than columns, else its columns. Of a QR decomposition, whose R has
/// a positive diagonal, so that all such matrices are equally likely. Needs LAPACK, on a GPU cuSOLVER
/// (UnsupportedError).
class SLUICE_API Orthogonal {
 public:
  /// Throws ValueError unless the scale is finite, and for an unknown rand_type.
  explicit Orthogonal(OrthogonalOptions options = {});
  /// Throws ShapeError for an array of fewer than two axes.
  void operator()(const NDArray& array) const;

 private:
  OrthogonalOptions options_;
};

/// Normal with mean `mean` and deviation `stdev`, without what is more than two deviations away (MXNet's TruncNorm).
class SLUICE_API TruncNorm {
 public:
  /// Throws ValueError unless both are finite and stdev is not negative.
  explicit TruncNorm(double mean = 0, double stdev = 0.01);
  void operator()(const NDArray& array) const;

 private:
  double mean_, stdev_;
};

/// Weights (C, 1, k, k) of a transposed convolution that enlarges by bilinear interpolation (MXNet's Bilinear).
class SLUICE_API Bilinear {
 public:
  /// Throws ShapeError unless the array has four axes, the last two alike.
  void operator()(const NDArray& array) const;
};

/// The bias (4 * hidden,) of an LSTM: `forget_bias` for the forget gate, 0 elsewhere (MXNet's LSTMBias).
class SLUICE_API LSTMBias {
 public:
  explicit LSTMBias(double forget_bias = 1) : forget_bias_(forget_bias) {}
  /// Throws ShapeError for an extent that is no multiple of 4.
  void operator()(const NDArray& array) const;

 private:
  double forget_bias_;
};

/// Of RNNFused: those that are empty leave their part of the array as it is.
struct RNNFusedOptions {
  bool bidirectional = false;
  Initializer i2h_weight_initializer = Uniform();
  Initializer h2h_weight_initializer = Uniform();
  Initializer i2h_bias_initializer = Zero();
  Initializer h2h_bias_initializer = Zero();
};

/// All parameters of rnn() as the one array that it takes (MXNet's RNNFused): weights and biases of each layer and
/// direction by initialisers of their own, which see their shapes.
class SLUICE_API RNNFused {
 public:
  /// Throws ValueError for fewer layers or units than one.
  RNNFused(RnnMode mode, std::int64_t num_layers, std::int64_t hidden_size, RNNFusedOptions options = {});
  /// Throws ShapeError for a size that rnn() takes of no inputs.
  void operator()(const NDArray& array) const;

 private:
  RnnMode mode_;
  std::int64_t layers_, hidden_;
  RNNFusedOptions options_;
};

/// Values for parameters by their names ("0.weight"), and an initialiser for those that have none (MXNet's Load). Names
/// may begin with "arg:" or "aux:", as in files of MXNet's modules.
class SLUICE_API Load {
 public:
  explicit Load(const std::map<std::string, NDArray>& arrays, Initializer fallback = {});
  /// What save_parameters(), MXNet or others wrote. Throws FileError. The host waits for the file.
  explicit Load(const std::filesystem::path& path, Initializer fallback = {});

  /// Undefined if there is none.
  NDArray find(const std::string& name) const;
  const Initializer& fallback() const noexcept { return fallback_; }
  /// Throws ValueError if a parameter without an initialiser of its own has neither a value nor a fallback, ShapeError
  /// for a value that does not fit; an extent of 0 is not known yet.
  void check(const std::string& name, const Shape& shape, bool has_its_own) const;

 private:
  void add(const std::string& name, const NDArray& array);

  std::map<std::string, NDArray> arrays_;
  Initializer fallback_;
};

/// An initialiser for each parameter by its name (MXNet's Mixed): `net.initialize(init::Mixed({{"bias$", init::Zero()},
/// {"", init::Xavier()}}))`.
class SLUICE_API Mixed {
 public:
  struct Part {
    std::string pattern;  // a regular expression (ECMAScript) that the name must contain; "" matches all
    Initializer init;
  };
  /// Throws ValueError for a pattern that is none, and for an empty initialiser.
  explicit Mixed(std::vector<Part> parts);
  /// That of the first pattern that `name` ("0.weight") contains. Throws ValueError if there is none.
  const Initializer& of(const std::string& name) const;

 private:
  std::vector<Part> parts_;
};

}  // namespace sluice::gluon::init
