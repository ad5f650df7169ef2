#include "samples/support/run_main.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include "samples/support/interrupt.h"
#include "samples/support/terminal.h"

namespace samples {

namespace {

int parse_and_run(
    CommandLine& command, int argc, char** argv, const std::string& name, const std::function<int()>& body) {
  if (const std::optional<int> code = command.parse(argc, argv))
    return *code;
  try {
    return body();
  } catch (const Interrupted& end) {
    say(end.what());
    return interrupt_code();
  } catch (const std::exception& error) {
    complain(name + ": " + error.what());
    return 1;
  }
}

}  // namespace

int run_main(CommandLine& command, int argc, char** argv, const std::function<int()>& body) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  const int code = parse_and_run(command, argc, argv, name, body);
  std::cout.flush();
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || code != 0)
    return code;
  complain(name + ": standard output could not be written to its end");
  return 1;
}

}  // namespace samples
