#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/operator/graph/detail/numbered.h>

namespace sluice::graph {

namespace {

template <class E>
[[noreturn]] void refuse(const Graph& graph, std::size_t at, const Error& error) {
  const Node& node = graph.nodes[at];
  E named(message("graph: node ", at, " (", node.op->name, "): ", error.message()));
  named.locate(
      node.site.origin != 0 ? "in " + describe(node.site) : message("at ", node.site.file, ":", node.site.line));
  throw named;
}

}  // namespace

void run_numbered(const Graph& graph, std::size_t at, const std::function<void()>& run) {
  try {
    run();
  } catch (const DTypeError& error) {
    refuse<DTypeError>(graph, at, error);
  } catch (const DeviceError& error) {
    refuse<DeviceError>(graph, at, error);
  } catch (const UnsupportedError& error) {
    refuse<UnsupportedError>(graph, at, error);
  } catch (const ValueError& error) {
    refuse<ValueError>(graph, at, error);
  } catch (const ShapeError& error) {
    refuse<ShapeError>(graph, at, error);
  } catch (const IndexError& error) {
    refuse<ShapeError>(graph, at, error);
  }
}

}  // namespace sluice::graph
