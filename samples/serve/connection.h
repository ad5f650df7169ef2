#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>

#include <sluice/gluon/server.h>

#include "samples/serve/protocol.h"

namespace samples {

/// One client: hands its samples to the server as they come, and sends the answers back in their order. Runs on a
/// strand; nothing waits.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;

  /// The socket's executor is `strand`.
  Connection(
      boost::asio::ip::tcp::socket socket, Strand strand, sluice::gluon::Server& server, const Greeting& greeting);

  void start();
  /// Any thread.
  void stop();

 private:
  /// A request that is not answered yet: a reply, or what is wrong with it.
  struct Open {
    sluice::gluon::ServerReply reply = {};
    Status status = Status::ok;
    std::string text = {};
  };

  void read();
  bool take_requests();
  bool take_request();
  void submit(std::span<const float> sample);
  void refuse(Status status, std::string text);
  void flush();
  bool may_answer() const;
  void answer(const Open& open);
  void write();
  void close();

  boost::asio::ip::tcp::socket socket_;
  const Strand strand_;
  sluice::gluon::Server& server_;
  const Greeting greeting_;
  std::vector<float> received_;  // of words, as all is
  std::size_t filled_ = 0;       // bytes of that
  std::size_t taken_ = 0;        // bytes of those that were requests
  std::size_t skipped_ = 0;      // bytes still to come that are of no use
  std::deque<Open> open_;
  std::vector<std::byte> next_, sent_;
  bool reading_ = false, writing_ = false;
  bool last_ = false;   // no more requests are taken
  bool ended_ = false;  // the client sends no more
};

}  // namespace samples
