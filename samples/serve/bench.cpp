#include "samples/serve/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <random>
#include <string>
#include <thread>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>

#include <sluice/engine/error.h>

#include "samples/serve/protocol.h"

namespace samples {

namespace asio = boost::asio;
using asio::ip::tcp;
using sluice::Error;
using sluice::message;
using sluice::require;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t k_samples = 16;

/// A connection as a client sees it.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(io_) {
    try {
      socket_.connect({asio::ip::address_v4::loopback(), port});
    } catch (const boost::system::system_error& error) {
      throw Error(message("port ", port, " of 127.0.0.1: no server listens there (", error.code().message(), ")"));
    }
    socket_.set_option(tcp::no_delay(true));
    asio::read(socket_, asio::buffer(&greeting_, sizeof greeting_));
    const bool known = std::memcmp(greeting_.magic, k_magic, sizeof greeting_.magic) == 0 &&
                       greeting_.sample_values <= k_most_values && greeting_.answer_values <= k_most_values;
    require<Error>(known, [&] { return message("port ", port, ": what listens there speaks another protocol"); });
  }

  const Greeting& greeting() const noexcept { return greeting_; }
  void send(const std::vector<float>& request) { asio::write(socket_, asio::buffer(request)); }
  /// False: the server is busy.
  bool receive(std::vector<float>& answer) {
    AnswerHead head = {};
    asio::read(socket_, asio::buffer(&head, sizeof head));
    require<Error>(head.bytes <= k_most_values * sizeof(float), [] { return "an answer that is too long"; });
    std::string text(head.bytes, '\0');
    asio::read(socket_, asio::buffer(text));
    require<Error>(head.status == Status::ok || head.status == Status::busy, [&] { return "the server: " + text; });
    if (head.status == Status::busy)
      return false;
    require<Error>(head.bytes == greeting_.answer_values * sizeof(float), [&] {
      return message("an answer of ", head.bytes, " bytes, ", greeting_.answer_values, " numbers were announced");
    });
    answer.resize(greeting_.answer_values);
    std::memcpy(answer.data(), text.data(), head.bytes);
    return true;
  }

 private:
  asio::io_context io_;
  tcp::socket socket_;
  Greeting greeting_ = {};
};

/// What is asked, and the first answer to each.
struct Questions {
  std::vector<std::vector<float>> requests, answers;

  explicit Questions(std::uint16_t port) {
    Client client(port);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> number(0, 1);
    const std::uint32_t count = client.greeting().sample_values;
    for (std::size_t i = 0; i < k_samples; ++i) {
      std::vector<float>& request = requests.emplace_back(1 + count);
      std::memcpy(request.data(), &count, sizeof count);
      std::generate(request.begin() + 1, request.end(), [&] { return number(random); });
      answers.emplace_back();
      do
        client.send(request);
      while (!client.receive(answers.back()));
    }
  }
  void check(std::size_t which, const std::vector<float>& answer) const {
    float largest = 0, apart = 0;
    for (std::size_t i = 0; i < answer.size(); ++i) {
      largest = std::max(largest, std::abs(answers[which][i]));
      apart = std::max(apart, std::abs(answers[which][i] - answer[i]));
    }
    require<Error>(
        apart <= 1e-3f * (1 + largest), [&] { return message("two answers to one sample differ by ", apart); });
  }
};

void ask(const BenchOptions& options, const Questions& questions, int number, BenchReport& report) {
  Client client(options.port);
  std::deque<Clock::time_point> sent;
  std::vector<float> answer;
  const auto which = [&](int i) { return static_cast<std::size_t>(i + number) % k_samples; };
  report.latencies.reserve(static_cast<std::size_t>(options.requests));
  for (int asked = 0, answered = 0; answered < options.requests; ++answered) {
    for (; asked < options.requests && asked < answered + options.window; ++asked) {
      sent.push_back(Clock::now());
      client.send(questions.requests[which(asked)]);
    }
    if (!client.receive(answer))
      ++report.busy;
    else
      questions.check(which(answered), answer);
    report.latencies.push_back(std::chrono::duration<float, std::micro>(Clock::now() - sent.front()).count());
    sent.pop_front();
  }
}

}  // namespace

BenchReport run_bench(const BenchOptions& options) {
  const Questions questions(options.port);
  const auto count = static_cast<std::size_t>(options.connections);
  std::vector<BenchReport> reports(count);
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        ask(options, questions, static_cast<int>(i), reports[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  BenchReport all;
  all.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::size_t i = 0; i < count; ++i) {
    if (failures[i] != nullptr)
      std::rethrow_exception(failures[i]);
    all.latencies.insert(all.latencies.end(), reports[i].latencies.begin(), reports[i].latencies.end());
    all.busy += reports[i].busy;
  }
  std::sort(all.latencies.begin(), all.latencies.end());
  return all;
}

}  // namespace samples
