#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/raised_versions.h>
#include <sluice/operator/rtc/code.h>
#include <sluice/operator/rtc/rtc.h>
#include <sluice/operator/rtc/signature.h>

namespace sluice::rtc {

#if !SLUICE_CUDA
std::string why_not(int) {
  return "CUDA sources run on a GPU, and this build of Sluice is without CUDA";
}
void prepare(const UserSource&, int gpu) {
  throw UnsupportedError(message("rtc: ", why_not(gpu)));
}
Loaded load(const UserSource&, const std::string&, int gpu) {
  throw UnsupportedError(message("rtc: ", why_not(gpu)));
}
void launch(const void*, const LaunchShape&, void**, void*) {}
#endif

namespace {

std::size_t bytes_of(const Parameter& parameter) noexcept {
  return parameter.array ? sizeof(void*) : size_of(parameter.dtype);
}

std::uint64_t bits_of(Scalar number, DType dtype) {
  return by_any_dtype(dtype, [&]<class T>() {
    T value;
    if constexpr (std::is_same_v<T, bool>)
      value = number.as_double() != 0;
    else if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(number.as_int64());
    else
      value =
          static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(number.as_double()));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  });
}

/// What the task of a launch carries.
struct Call {
  const void* kernel = nullptr;
  LaunchShape shape;
  boost::container::small_vector<std::uint64_t, 8> words;  // an argument each

  void run(void* stream) {
    boost::container::small_vector<void*, 8> parameters;
    for (std::uint64_t& word : words)
      parameters.push_back(&word);
    launch(kernel, shape, parameters.data(), stream);
  }
};

}  // namespace

struct CudaModule::Module {
  UserSource source;
};

struct CudaKernel::Kernel {
  std::shared_ptr<const UserSource> source;
  std::string name;
  std::vector<Parameter> parameters;
  std::string title;  // in errors
  std::mutex mutex;
  std::map<int, Loaded> loaded;  // by GPU; what was put there stays

  const Loaded& on(int gpu) {
    const std::lock_guard hold(mutex);
    const auto found = loaded.find(gpu);
    if (found != loaded.end())
      return found->second;
    Loaded made = load(*source, name, gpu);
    check_parameters(made.parameters);
    return loaded.emplace(gpu, std::move(made)).first->second;
  }

  /// CUDA's own word, where it has one.
  void check_parameters(std::span<const std::size_t> sizes) const {
    if (sizes.empty())
      return;
    require<ValueError>(sizes.size() == parameters.size(), [&] {
      return message(title, ": the kernel has ", sizes.size(), " parameters, its signature names ", parameters.size());
    });
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      require<ValueError>(sizes[i] == bytes_of(parameters[i]), [&] {
        return message(
            title,
            ": parameter ",
            i,
            " of the kernel has ",
            sizes[i],
            " bytes, ",
            to_string(parameters[i]),
            " has ",
            bytes_of(parameters[i]));
      });
    }
  }
};

namespace {

/// The arguments of one launch, checked against the signature one by one.
class Arguments {
 public:
  Arguments(const std::string& title, std::span<const Parameter> parameters, std::span<const Argument> given)
      : title_(title), parameters_(parameters), given_(given) {
    require<ValueError>(given.size() == parameters.size(), [&] {
      return message(title, " takes ", parameters.size(), " arguments, ", given.size(), " were given");
    });
    for (std::size_t i = 0; i < given.size(); ++i)
      check(i);
  }

  Device device() const noexcept { return engine_ == nullptr ? gpu(0) : device_; }
  Engine& engine() const { return engine_ == nullptr ? Engine::current() : *engine_; }

  /// Fills in what the task says and carries.
  void enter(Task& task, Call& call, SourceLocation site) {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      if (!parameter.array) {
        call.words.push_back(bits_of(given_[i].number(), parameter.dtype));
        continue;
      }
      const NDArray& array = given_[i].array();
      const detail::ArrayObject& object = array.is_contiguous() ? *array.object() : packed(array, site);
      call.words.push_back(std::bit_cast<std::uint64_t>(object.data()));
      detail::add_touched(task.access, object, parameter.constant ? AccessMode::read : AccessMode::write);
    }
  }

  void raise(detail::RaisedVersions& versions) const {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (parameters_[i].array && !parameters_[i].constant)
        versions.raise(*given_[i].array().object()->buffer);
    }
  }

 private:
  void check(std::size_t i) {
    const Parameter& parameter = parameters_[i];
    const Argument& argument = given_[i];
    require<ValueError>(argument.is_array() == parameter.array, [&] {
      return message(
          title_,
          ": argument ",
          i,
          " is ",
          argument.is_array() ? "an array" : "a number or an undefined array",
          ", ",
          to_string(parameter),
          " is wanted");
    });
    if (parameter.array)
      return check_array(i, *argument.array().object());
    detail::check_fits(title_.c_str(), argument.number(), parameter.dtype);
  }

  void check_array(std::size_t i, const detail::ArrayObject& object) {
    const Parameter& parameter = parameters_[i];
    detail::with_data(title_.c_str(), object);
    if (!parameter.constant)
      detail::check_not_frozen(title_.c_str(), object);
    require<DTypeError>(object.dtype == parameter.dtype, [&] {
      return message(
          title_, ": argument ", i, " is an array of ", object.dtype, ", ", to_string(parameter), " is wanted");
    });
    require<DeviceError>(object.device.is_gpu() && (engine_ == nullptr || object.device == device_), [&] {
      return message(
          title_,
          ": argument ",
          i,
          " is on ",
          object.device,
          ", a kernel runs on one GPU",
          engine_ == nullptr ? std::string() : message(", here ", device_));
    });
    require<ValueError>(parameter.constant || object.contiguous, [&] {
      return message(
          title_,
          ": argument ",
          i,
          " is written and has gaps (shape ",
          object.shape,
          ", strides ",
          object.strides,
          ")");
    });
    require<AutogradError>(
        parameter.constant || !autograd::is_recording() || !autograd::on_tape(given_[i].array()), [&] {
          return message(
              title_, ": argument ", i, " is on the tape and would be written; call it in an autograd::Function");
        });
    device_ = object.device;
    engine_ = &object.buffer->engine();
  }

  const detail::ArrayObject& packed(const NDArray& array, SourceLocation site) {
    NDArray made = detail::make_empty(engine(), array.shape(), {.dtype = array.dtype(), .device = device_});
    detail::push_copy(array, made, site, detail::CopyTo::made);
    return *packed_.emplace_back(std::move(made)).object();
  }

  const std::string& title_;
  std::span<const Parameter> parameters_;
  std::span<const Argument> given_;
  Device device_;
  Engine* engine_ = nullptr;
  std::vector<NDArray> packed_;  // until the task is pushed
};

/// What every GPU of CUDA's takes; `most_threads` and `most_shared` are the kernel's own.
void check_shape(const std::string& title, const LaunchShape& shape, const Loaded& on) {
  const auto [x, y, z] = shape.block;
  const std::uint64_t threads = std::uint64_t{x} * y * z;
  require<ValueError>(threads > 0 && x <= 1024 && y <= 1024 && z <= 64 && threads <= on.most_threads, [&] {
    return message(
        title,
        ": a block of ",
        x,
        " x ",
        y,
        " x ",
        z,
        " threads; this kernel takes 1 to ",
        on.most_threads,
        ", at most 1024 x 1024 x 64");
  });
  const Extents& grid = shape.grid;
  require<ValueError>(grid.x <= 0x7fffffffU && grid.y <= 0xffffU && grid.z <= 0xffffU, [&] {
    return message(
        title, ": a grid of ", grid.x, " x ", grid.y, " x ", grid.z, " blocks; it may have 2147483647 x 65535 x 65535");
  });
  require<ValueError>(shape.shared_bytes <= on.most_shared, [&] {
    return message(
        title, ": ", shape.shared_bytes, " bytes of shared memory; this kernel may have ", on.most_shared, " more");
  });
}

}  // namespace

const std::string& CudaKernel::name() const noexcept {
  return kernel_->name;
}

void CudaKernel::launch(std::span<const Argument> given, const LaunchShape& shape, SourceLocation site) const {
  Arguments arguments(kernel_->title, kernel_->parameters, given);
  const Device device = arguments.device();
  const Loaded& loaded = kernel_->on(device.index);
  check_shape(kernel_->title, shape, loaded);
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0)
    return;
  Task task{.name = TaskName(kernel_->name), .device = device, .capturable = true};
  auto call = std::make_unique<Call>();
  call->kernel = loaded.kernel;
  call->shape = shape;
  arguments.enter(task, *call, site);
  detail::RaisedVersions versions;
  arguments.raise(versions);
  arguments.engine().push(
      task, [call = std::move(call)](Queue queue) { call->run(queue.stream()); }, site);
  versions.pushed();
}

CudaModule::CudaModule(std::string source, std::vector<std::string> options)
    : module_(std::make_shared<Module>(Module{{std::move(source), std::move(options)}})) {
  const std::string problem = why_not(0);
  require<UnsupportedError>(problem.empty(), [&] { return message("rtc: ", problem); });
  prepare(module_->source, 0);
}

CudaKernel CudaModule::kernel(std::string_view name, std::string_view signature) const {
  auto made = std::make_shared<CudaKernel::Kernel>();
  made->source = std::shared_ptr<const UserSource>(module_, &module_->source);
  made->name = name;
  made->title = message("rtc: kernel ", name);
  made->parameters = parse_signature(name, signature);
  made->on(0);
  return CudaKernel(std::move(made));
}

}  // namespace sluice::rtc
