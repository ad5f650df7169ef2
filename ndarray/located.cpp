#include <cstring>
#include <string>

#include <sluice/engine/origin.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>

namespace sluice::detail {

namespace {

bool same(SourceLocation a, SourceLocation b) noexcept {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

}  // namespace

void locate(Error& error, SourceLocation site) {
  ShapeWatch::note_error();
  const bool is_layers = site.origin != 0;
  if (site.line == 0 || is_layers || !same(OriginScope::stamped(site), site))
    return;
  std::string where = message("at ", site.file, ":", site.line);
  if (const Origin* const caller = OriginScope::current()) {
    const SourceLocation called = caller->called();
    if (same(called, site))
      where = "in " + describe(OriginScope::stamped(site));
    else
      where += message("\n  in ", caller->what(), ", called at ", called.file, ":", called.line);
  }
  error.locate(where);
}

}  // namespace sluice::detail
