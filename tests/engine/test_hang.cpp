// A test that hangs tells why (T13). What "hangs" means is tested in tests/scripts.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include <sluice/engine/api.h>

#include "tests/engine/expect.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("planted hang", "[.hangs]") {
  if (std::getenv("SLUICE_PLANTED_HANG") == nullptr)
    return;  // some filters select hidden cases too
  Engine engine({.workers = 2});
  const Var x = engine.new_var(), y = engine.new_var(), unused = engine.new_var();
  const Gate never;
  engine.push({.name = "never ends", .access = {write(x)}}, [never] {
    while (!never.is_open())
      usleep(1000);
  });
  engine.push({.name = "reads x", .access = {read(x), write(y)}}, [] {});
  engine.push({.name = "writes y", .access = {write(y)}}, [] {});
  engine.wait(y);
}

TEST_CASE("T13: a test that makes no progress prints each Var's mode and lists, and is ended later") {
  std::array<char, 4096> program{};
  REQUIRE(readlink("/proc/self/exe", program.data(), program.size() - 1) > 0);
  const std::string command = "SLUICE_PLANTED_HANG=1 SLUICE_QUIET_SECONDS=1 SLUICE_HANG_SECONDS=3 exec '" +
                              std::string(program.data()) + "' 'planted hang' 2>&1";
  std::FILE* const child = popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  std::string said;
  for (std::array<char, 4096> line{}; std::fgets(line.data(), line.size(), child) != nullptr;)
    said += line.data();
  CHECK(pclose(child) != 0);
  const std::size_t quiet = said.find("QUIET: test case \"planted hang\""), ended = said.find("HANG: ");
  REQUIRE(quiet != std::string::npos);
  REQUIRE(ended != std::string::npos);
  REQUIRE(quiet < ended);
  for (const std::string& report : {said.substr(quiet, ended - quiet), said.substr(ended)}) {
    CHECK_THAT(report, contains("Vars in use: 2"));
    CHECK_THAT(report, contains(": written"));
    CHECK_THAT(report, contains("held by \"never ends\" ("));
    CHECK_THAT(report, contains("waits to read: \"reads x\" ("));
    CHECK_THAT(report, contains("waits to write: \"writes y\" ("));
    CHECK_THAT(report, contains("test_hang.cpp:"));
  }
}
