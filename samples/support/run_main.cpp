#include "samples/support/run_main.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include "samples/support/terminal.h"

namespace samples {

namespace {

int parse_and_run(CLI::App& app, int argc, char** argv, const std::string& name, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return body();
  } catch (const std::exception& error) {
    complain(name + ": " + error.what());
    return 1;
  }
}

}  // namespace

int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  const int code = parse_and_run(app, argc, argv, name, body);
  std::cout.flush();
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || code != 0)
    return code;
  complain(name + ": standard output could not be written to its end");
  return 1;
}

}  // namespace samples
