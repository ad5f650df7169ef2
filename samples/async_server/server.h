#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <sluice/engine/api.h>

namespace samples {

/// Answers lines over TCP on the loopback address: "score N1 N2 ..." with "VERSION SCORE", "update" with "VERSION",
/// anything else with "error TEXT". Each request is a task: scores read the weights and share them, an update has them
/// to itself. A connection awaits its task; no thread ever waits.
class Server {
 public:
  /// Port 0 = any free one. `io` and `engine` must outlive the server, which must outlive its last connection.
  Server(boost::asio::io_context& io, sluice::Engine& engine, std::size_t features, std::uint16_t port);

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// Accepts connections until stop().
  void start();
  /// Closes the connections and accepts no more. Any thread.
  void stop();

 private:
  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> serve(std::shared_ptr<boost::asio::ip::tcp::socket> socket);
  boost::asio::awaitable<std::string> answer(const std::string& request);
  std::string score(const std::string& request) const;
  std::string update();

  sluice::Engine& engine_;
  boost::asio::ip::tcp::acceptor acceptor_;
  sluice::Var weights_var_;
  std::vector<std::int64_t> weights_;  // of tasks that name weights_var_
  std::uint64_t version_ = 0;

  std::mutex open_mutex_;
  bool stopping_ = false;
  std::set<std::shared_ptr<boost::asio::ip::tcp::socket>> open_;
};

}  // namespace samples
