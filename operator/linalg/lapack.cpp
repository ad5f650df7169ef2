#include <algorithm>
#include <cmath>
#include <cstddef>
#include <dlfcn.h>
#include <limits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/library/pieces.h>
#include <sluice/operator/linalg/lapack.h>
#include <sluice/operator/linalg/openblas.h>

namespace sluice::detail {

namespace {

/// Fortran's functions as a C compiler sees them: all by address, and behind the last argument the lengths of texts.
template <class T>
struct Calls {
  using Text = const char*;
  using Int = const int*;
  using Length = std::size_t;
  void (*potrf)(Text uplo, Int n, T* a, Int lda, int* info, Length) = nullptr;
  void (*trsm)(
      Text side,
      Text uplo,
      Text trans,
      Text diag,
      Int m,
      Int n,
      const T* alpha,
      const T* a,
      Int lda,
      T* b,
      Int ldb,
      Length,
      Length,
      Length,
      Length) = nullptr;
  void (*getrf)(Int m, Int n, T* a, Int lda, int* pivots, int* info) = nullptr;
  void (*getrs)(Text trans, Int n, Int columns, const T* a, Int lda, Int pivots, T* b, Int ldb, int* info, Length) =
      nullptr;
  void (*geqrf)(Int m, Int n, T* a, Int lda, T* tau, T* work, Int size, int* info) = nullptr;
  void (*orgqr)(Int m, Int n, Int k, T* a, Int lda, const T* tau, T* work, Int size, int* info) = nullptr;
  void (*gesdd)(
      Text job,
      Int m,
      Int n,
      T* a,
      Int lda,
      T* s,
      T* u,
      Int ldu,
      T* vt,
      Int ldvt,
      T* work,
      Int size,
      int* more,
      int* info,
      Length) = nullptr;
  void (*syevd)(
      Text job,
      Text uplo,
      Int n,
      T* a,
      Int lda,
      T* w,
      T* work,
      Int size,
      int* more,
      Int more_size,
      int* info,
      Length,
      Length) = nullptr;
};

Calls<float> g_float;
Calls<double> g_double;

template <class T>
void take(const SharedLibrary& loaded, Calls<T>& calls, char type) {
  const auto find = [&](const char* name, auto& function) {
    loaded.find((type + std::string(name) + "_").c_str(), function);
  };
  find("potrf", calls.potrf);
  find("trsm", calls.trsm);
  find("getrf", calls.getrf);
  find("getrs", calls.getrs);
  find("geqrf", calls.geqrf);
  find("orgqr", calls.orgqr);
  find("gesdd", calls.gesdd);
  find("syevd", calls.syevd);
}

void take_all(const SharedLibrary& loaded) {
  take(loaded, g_float, 's');
  take(loaded, g_double, 'd');
}

void take_openblas(const SharedLibrary& loaded) {
  take_all(loaded);
  constexpr const char* name = "openblas_set_num_threads";
  if (::dlsym(RTLD_DEFAULT, name) != nullptr)  // the program's own, which does with it as it likes
    return;
  void (*set_threads)(int) = nullptr;
  loaded.find(name, set_threads);
  set_threads(1);
  choose_openblas_kernels(loaded);
}

template <class F>
int with_calls(DType dtype, F&& f) {
  return dtype == DType::float64 ? f(g_double, double{}) : f(g_float, float{});
}

int narrow(std::int64_t extent) {
  return static_cast<int>(extent);
}

// What leads from column to column is at least 1, of empty matrices too.
int leading(std::int64_t rows) {
  return rows < 1 ? 1 : narrow(rows);
}

// The scratch that a call asks for, in a number of its own type.
template <class T>
std::vector<T> scratch(T asked, int& size) {
  const double exact = std::ceil(static_cast<double>(asked) * (1 + 2 * std::numeric_limits<T>::epsilon()));
  require<UnsupportedError>(exact <= std::numeric_limits<int>::max(), [&] {
    return message("LAPACK: scratch memory of ", asked, " numbers is more than it counts");
  });
  size = exact < 1 ? 1 : static_cast<int>(exact);
  return std::vector<T>(static_cast<std::size_t>(size));
}

// Right sides are solved for in pieces of some, each with all factors to read once more.
constexpr std::int64_t k_solved_unit = 16;
std::int64_t pieces_solved(std::int64_t n, std::int64_t sides) {
  constexpr double k_piece = 1 << 24, k_most = 8;
  const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(sides);
  return static_cast<std::int64_t>(std::clamp(operations / k_piece, 1.0, k_most));
}

int positive(int info) {
  return info > 0 ? info : 0;
}

}  // namespace

SharedLibrary& lapack_library() {
  static auto* const openblas = new SharedLibrary(
      {"OpenBLAS", "libopenblas.so.0", "OpenBLAS (libopenblas0 on Debian and Ubuntu)"}, take_openblas);
  static auto* const any = new SharedLibrary(
      {"LAPACK 3", "liblapack.so.3", "OpenBLAS (libopenblas0 on Debian and Ubuntu) or LAPACK (liblapack3)"}, take_all);
  return openblas->load() ? *openblas : *any;
}

int lapack_potrf(DType dtype, std::int64_t size, void* a) {
  const int n = narrow(size), lda = leading(size);
  return with_calls(dtype, [&]<class T>(const Calls<T>& calls, T) {
    int info = 0;
    calls.potrf("U", &n, static_cast<T*>(a), &lda, &info, 1);
    return positive(info);
  });
}

void lapack_trsm(
    DType dtype,
    bool upper,
    bool transposed,
    bool unit_diagonal,
    std::int64_t rows,
    std::int64_t columns,
    const void* a,
    void* b) {
  const int n = narrow(columns), lda = leading(columns), ldb = leading(rows);
  with_calls(dtype, [&]<class T>(const Calls<T>& calls, T) {
    const T one = 1;
    const char* const uplo = upper ? "U" : "L";
    const char* const trans = transposed ? "T" : "N";
    const char* const diag = unit_diagonal ? "U" : "N";
    const Pieces pieces = pieces_of(rows, pieces_solved(columns, rows), k_solved_unit);
    for_each_piece(pieces, [&](std::int64_t piece) {
      const int m = narrow(pieces.length_of(piece));
      T* const here = static_cast<T*>(b) + pieces.begin(piece);
      calls.trsm("R", uplo, trans, diag, &m, &n, &one, static_cast<const T*>(a), &lda, here, &ldb, 1, 1, 1, 1);
    });
    return 0;
  });
}

int lapack_getrf(DType dtype, std::int64_t size, void* a, std::int64_t* pivots) {
  const int n = narrow(size), lda = leading(size);
  return with_calls(dtype, [&]<class T>(const Calls<T>& calls, T) {
    std::vector<int> rows(static_cast<std::size_t>(size));
    int info = 0;
    calls.getrf(&n, &n, static_cast<T*>(a), &lda, rows.data(), &info);
    for (std::size_t i = 0; i < rows.size(); ++i)
      pivots[i] = rows[i];
    return positive(info);
  });
}

void lapack_getrs(
    DType dtype,
    bool transposed,
    std::int64_t size,
    std::int64_t columns,
    const void* a,
    const std::int64_t* pivots,
    void* b) {
  const int n = narrow(size), lda = leading(size);
  with_calls(dtype, [&]<class T>(const Calls<T>& calls, T) {
    const std::vector<int> rows(pivots, pivots + size);
    const char* const trans = transposed ? "T" : "N";
    const Pieces pieces = pieces_of(columns, pieces_solved(size, columns), k_solved_unit);
    for_each_piece(pieces, [&](std::int64_t piece) {
      const int k = narrow(pieces.length_of(piece));
      int info = 0;
      T* const here = static_cast<T*>(b) + pieces.begin(piece) * size;
      calls.getrs(trans, &n, &k, static_cast<const T*>(a), &lda, rows.data(), here, &lda, &info, 1);
    });
    return 0;
  });
}

void lapack_geqrf(DType dtype, std::int64_t rows, std::int64_t columns, void* a, void* tau) {
  const int m = narrow(rows), n = narrow(columns), lda = leading(rows);
  with_calls(dtype, [&]<class T>(const Calls<T>& calls, T asked) {
    int size = -1, info = 0;
    T* const matrix = static_cast<T*>(a);
    calls.geqrf(&m, &n, matrix, &lda, static_cast<T*>(tau), &asked, &size, &info);
    std::vector<T> work = scratch(asked, size);
    calls.geqrf(&m, &n, matrix, &lda, static_cast<T*>(tau), work.data(), &size, &info);
    return 0;
  });
}

void lapack_orgqr(DType dtype, std::int64_t rows, std::int64_t columns, void* a, const void* tau) {
  const int m = narrow(rows), k = narrow(columns), lda = leading(rows);
  with_calls(dtype, [&]<class T>(const Calls<T>& calls, T asked) {
    int size = -1, info = 0;
    T* const matrix = static_cast<T*>(a);
    calls.orgqr(&m, &k, &k, matrix, &lda, static_cast<const T*>(tau), &asked, &size, &info);
    std::vector<T> work = scratch(asked, size);
    calls.orgqr(&m, &k, &k, matrix, &lda, static_cast<const T*>(tau), work.data(), &size, &info);
    return 0;
  });
}

int lapack_gesvd(DType dtype, std::int64_t rows, std::int64_t columns, void* a, void* s, void* u, void* vt) {
  const int m = narrow(rows), n = narrow(columns), lda = leading(rows), ldvt = leading(columns);
  return with_calls(dtype, [&]<class T>(const Calls<T>& calls, T asked) {
    int size = -1, info = 0;
    std::vector<int> more(static_cast<std::size_t>(8 * columns) + 1);
    const auto call = [&](T* work) {
      calls.gesdd(
          "S",
          &m,
          &n,
          static_cast<T*>(a),
          &lda,
          static_cast<T*>(s),
          static_cast<T*>(u),
          &lda,
          static_cast<T*>(vt),
          &ldvt,
          work,
          &size,
          more.data(),
          &info,
          1);
    };
    call(&asked);
    std::vector<T> work = scratch(asked, size);
    call(work.data());
    return positive(info);
  });
}

int lapack_syevd(DType dtype, std::int64_t extent, void* a, void* w) {
  const int n = narrow(extent), lda = leading(extent);
  return with_calls(dtype, [&]<class T>(const Calls<T>& calls, T asked) {
    int size = -1, more_size = -1, more_asked = 1, info = 0;
    const auto call = [&](T* work, int* more) {
      calls.syevd(
          "V", "U", &n, static_cast<T*>(a), &lda, static_cast<T*>(w), work, &size, more, &more_size, &info, 1, 1);
    };
    call(&asked, &more_asked);
    std::vector<T> work = scratch(asked, size);
    more_size = more_asked < 1 ? 1 : more_asked;
    std::vector<int> more(static_cast<std::size_t>(more_size));
    call(work.data(), more.data());
    return positive(info);
  });
}

}  // namespace sluice::detail
