#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/operator.h>

// A node of a symbol of MXNet's, and what calls its counterpart. Private to this folder.
namespace sluice::gluon::formats {

/// Attributes as MXNet writes them: "(3, 3)", "True", "None". What they are not is a FileError naming the node.
class SymbolAttributes {
 public:
  SymbolAttributes() = default;
  SymbolAttributes(std::string node, std::map<std::string, std::string> texts)
      : node_(std::move(node)), texts_(std::move(texts)) {}

  const std::map<std::string, std::string>& texts() const noexcept { return texts_; }
  /// "None" is as if it were not there.
  const std::string* find(const char* key) const;
  std::string text(const char* key, const char* otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::int64_t integer(const char* key, std::int64_t otherwise) const;
  double number(const char* key, double otherwise) const;
  /// A number that can be one of an axis.
  int axis(const char* key, int otherwise) const;
  /// "(3, 3)", "[3]", "3"; "()" is as if it were not there.
  Shape numbers(const char* key, const Shape& otherwise) const;

  /// Throws FileError for a text that is not what attributes of its name are.
  void check() const;
  [[noreturn]] void refuse(const std::string& what) const;        // UnsupportedError
  [[noreturn]] void find_damaged(const std::string& what) const;  // FileError

 private:
  [[noreturn]] void fail(const char* key, const std::string& text) const;

  std::string node_;
  std::map<std::string, std::string> texts_;
};

/// What stands in for an operator of MXNet's.
struct SymbolOperator {
  /// Throws what the operators called throw.
  Arrays (*call)(const SymbolAttributes& attributes, std::span<const NDArray> inputs) = nullptr;
  /// Those that are looked at; with others a node is refused.
  std::vector<std::string_view> attributes = {};
  /// With fewer it is refused.
  std::size_t least_inputs = 1;
  /// This input is a label, which predictions do not need.
  std::optional<std::size_t> label = {};
  /// These are no parameters to be trained.
  std::vector<std::size_t> statistics = {};
  /// Attributes that must have one of these values where they are there.
  std::map<std::string_view, std::vector<std::string_view>> only = {};
  /// Those that have no default.
  std::vector<const char*> required = {};
  /// What else can be said before it runs: throws as call() would. Null: nothing.
  void (*check)(const SymbolAttributes& attributes, std::size_t inputs) = nullptr;
};

/// By MXNet's names.
using SymbolOperators = std::map<std::string_view, SymbolOperator>;
const SymbolOperators& symbol_operators();
/// Those of symbol_arithmetic.cpp and symbol_sequences.cpp.
void add_arithmetic(SymbolOperators& all);
void add_sequences(SymbolOperators& all);

}  // namespace sluice::gluon::formats
