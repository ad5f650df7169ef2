#include <iomanip>
#include <sstream>

#include <sluice/operator/attributes.h>

namespace sluice {

namespace {

class Printer final : public AttributeVisitor {
 public:
  void field(const char* name, bool& value) override { write(name, value ? "true" : "false"); }
  void field(const char* name, std::int64_t& value) override { write(name, value); }
  void field(const char* name, double& value) override { write(name, value); }
  void field(const char* name, std::string& value) override { write(name, std::quoted(value)); }
  void field(const char* name, Shape& value) override { write(name, value); }
  void field(const char* name, DType& value) override { write(name, value); }

  std::string text() && { return std::move(out_).str(); }

 private:
  template <class T>
  void write(const char* name, const T& value) {
    out_.precision(17);
    out_ << (std::exchange(first_, false) ? "" : ", ") << name << '=' << value;
  }

  std::ostringstream out_;
  bool first_ = true;
};

}  // namespace

std::string to_string(const Attributes& attributes) {
  Printer printer;
  attributes.visit(printer);
  return std::move(printer).text();
}

}  // namespace sluice
