#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <sluice/ndarray/detail/simd_target.h>
#include <sluice/operator/linalg/openblas.h>

namespace sluice::detail {

namespace {

/// The environment with a variable more, for as long as this lives. Another thread may read the one or the other
/// meanwhile, and neither goes away; setenv() would move what it reads.
class ExtraVariable {
 public:
  explicit ExtraVariable(const char* variable) : before_(environ) {
    static auto* const all = new std::vector<char*>;  // once, and for good: who reads it may go on
    for (char** each = before_; each != nullptr && *each != nullptr; ++each)
      all->push_back(*each);
    all->push_back(const_cast<char*>(variable));
    all->push_back(nullptr);
    environ = mine_ = all->data();
  }
  ExtraVariable(const ExtraVariable&) = delete;
  ExtraVariable& operator=(const ExtraVariable&) = delete;
  ~ExtraVariable() {
    if (environ == mine_)  // otherwise somebody has set a variable meanwhile
      environ = before_;
  }

 private:
  char** const before_;
  char** mine_;
};

}  // namespace

void choose_openblas_kernels(const SharedLibrary& openblas) {
  char* (*core)() = nullptr;
  void (*forget)() = nullptr;
  void (*choose)() = nullptr;
  void* known = nullptr;
  openblas.find_as_it_does("openblas_get_corename", core);
  openblas.find_as_it_does("gotoblas_dynamic_quit", forget);
  openblas.find_as_it_does("gotoblas_dynamic_init", choose);
  openblas.find_as_it_does("gotoblas_HASWELL", known);
  if (core == nullptr || forget == nullptr || choose == nullptr || known == nullptr)
    return;  // built for one processor
  const bool has_avx2 = simd::is_available(simd::Target::avx2);
  if (!has_avx2 || std::string_view(core()) != "Prescott" || std::getenv("OPENBLAS_CORETYPE") != nullptr)
    return;
  // Of the kernels for AVX-512 those that solve are slower than these, in versions that do not know such a processor.
  const ExtraVariable haswell("OPENBLAS_CORETYPE=Haswell");
  forget();
  choose();
}

}  // namespace sluice::detail
