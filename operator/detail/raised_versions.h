#pragma once

#include <cstdint>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/buffer.h>

namespace sluice::detail {

/// Versions of what a task writes: raised before it is pushed, since who is told by its body may come before push()
/// returns; taken back where it was refused. The buffers stay meanwhile.
class RaisedVersions {
 public:
  RaisedVersions() = default;
  RaisedVersions(const RaisedVersions&) = delete;
  RaisedVersions& operator=(const RaisedVersions&) = delete;
  ~RaisedVersions() {
    while (!is_pushed_ && !raised_.empty()) {  // the last one first: a buffer may be there twice
      raised_.back().buffer->take_back_version(raised_.back().version);
      raised_.pop_back();
    }
  }

  void raise(Buffer& buffer) {
    Raised& one = raised_.emplace_back();
    one = {&buffer, buffer.raise_version()};
  }
  void pushed() noexcept { is_pushed_ = true; }

 private:
  struct Raised {
    Buffer* buffer = nullptr;
    std::uint64_t version = 0;
  };
  boost::container::small_vector<Raised, 4> raised_;
  bool is_pushed_ = false;
};

}  // namespace sluice::detail
