#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/onednn.h>
#include <sluice/operator/library/pieces.h>
#include <sluice/operator/library/widened.h>
#include <sluice/operator/matmul/product.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using Dims = dnnl::memory::dims;

dnnl::memory::desc describe(
    const Matrix& matrix, DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  // A batch stride of 0 repeats one matrix: an extent of 1, which oneDNN broadcasts.
  const std::int64_t extent = batch > 1 && matrix.batch == 0 ? 1 : batch;
  const std::int64_t stride = extent == 1 ? rows * columns : matrix.batch;
  return {Dims{extent, rows, columns}, onednn_type(dtype), Dims{stride, matrix.row, matrix.column}};
}

DType result_type(const GemmProblem& p) {
  return p.c_in_accumulator ? DType::float32 : p.dtype;
}

// Whether the second operand's neighbours are what is summed over, as of a dense layer's weight.
bool sums_along_b(const GemmProblem& p) {
  return p.dtype == DType::float32 && p.batch == 1 && p.m > 1 && p.b.row == 1 && p.b.column > 1;
}

OnednnPlan make_plan(const dnnl::engine& engine, const GemmProblem& p) {
  OnednnPlan plan;
  const dnnl::memory::desc a = describe(p.a, p.dtype, p.batch, p.m, p.k);
  const dnnl::memory::desc b = describe(p.b, p.dtype, p.batch, p.k, p.n);
  const dnnl::memory::desc ours = describe(p.c, result_type(p), p.batch, p.m, p.n);
  dnnl::memory::desc c = ours;
  // oneDNN 2.6 brings such an operand into the order of its kernels at half the speed, and less, where the result has
  // gaps: it is made without, and copied.
  if (p.c.row != p.n && sums_along_b(p))
    c = {Dims{1, p.m, p.n}, onednn_type(p.dtype), dnnl::memory::format_tag::abc};
  plan.x = OnednnLayout(engine, a, a, false);
  plan.weight = OnednnLayout(engine, b, b, false);
  plan.y = OnednnLayout(engine, ours, c, true);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto make = [&](const auto&... what) {
    const auto chosen = onednn_describe<dnnl::matmul>(engine, attributes, what...);
    plan.usable = onednn_is_worth(chosen, p.dtype);
    plan.scratch = chosen.scratchpad_desc();
    plan.primitive = dnnl::matmul(chosen);
  };
  if (p.column_bias != nullptr) {
    plan.bias = {Dims{1, 1, p.n}, onednn_type(p.dtype), dnnl::memory::format_tag::abc};
    make(a, b, plan.bias, c);
  } else {
    make(a, b, c);
  }
  return plan;
}

bool takes(const GemmProblem& p) {
  const bool joined = !p.relu || (p.batch == 1 && p.c.row == p.n);  // for whoever applies relu
  return joined && onednn_type(p.dtype) != dnnl::memory::data_type::undef && p.batch > 0 && p.m > 0 && p.n > 0 &&
         p.k > 0 && p.row_bias == nullptr && !p.accumulate && is_plain(p) && is_row_major(p.c, p.m, p.n);
}

// Matrices of a batch, otherwise rows or columns of the result: what is summed over stays whole.
struct Cutting {
  enum class Axis : std::uint8_t { batch, rows, columns };
  Axis axis = Axis::batch;
  Pieces pieces;

  explicit Cutting(const GemmProblem& p) {
    constexpr std::int64_t unit = 32;  // rows or columns, whole tiles of any kernel
    const double matrix = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const std::int64_t most = pieces_worth(static_cast<double>(p.batch) * matrix / onednn_pace(p.dtype));
    pieces = pieces_of(p.batch, most);
    if (pieces.count() >= most)
      return;
    const Pieces of_rows = pieces_of(p.m, most, unit), of_columns = pieces_of(p.n, most, unit);
    // Each piece of rows brings such an operand into order anew.
    const bool rows = sums_along_b(p) ? of_rows.count() > of_columns.count() : p.m >= p.n;
    const Pieces lines = rows ? of_rows : of_columns;
    if (lines.count() > pieces.count()) {
      axis = rows ? Axis::rows : Axis::columns;
      pieces = lines;
    }
  }

  GemmProblem part(const GemmProblem& whole, std::int64_t piece) const {
    const auto past = [&](const void* data, std::int64_t elements, DType dtype) -> void* {
      return const_cast<char*>(static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype)));
    };
    const std::int64_t begin = pieces.begin(piece);
    GemmProblem p = whole;
    if (axis == Axis::batch) {
      p.batch = pieces.length_of(piece);
      p.a.data = past(whole.a.data, begin * whole.a.batch, whole.dtype);
      p.b.data = past(whole.b.data, begin * whole.b.batch, whole.dtype);
      p.c.data = past(whole.c.data, begin * whole.c.batch, result_type(whole));
    } else if (axis == Axis::rows) {
      p.m = pieces.length_of(piece);
      p.a.data = past(whole.a.data, begin * whole.a.row, whole.dtype);
      p.c.data = past(whole.c.data, begin * whole.c.row, result_type(whole));
    } else {
      p.n = pieces.length_of(piece);
      p.b.data = past(whole.b.data, begin * whole.b.column, whole.dtype);
      p.c.data = past(whole.c.data, begin * whole.c.column, result_type(whole));
      if (whole.column_bias != nullptr)
        p.column_bias = past(whole.column_bias, begin, whole.dtype);
    }
    return p;
  }
};

CacheKey key_of(const GemmProblem& p) {
  constexpr std::int64_t kind = 1;  // apart from other primitives in the cache
  return CacheKey::of(
      kind,
      static_cast<int>(p.dtype),
      p.c_in_accumulator,
      p.batch,
      p.m,
      p.n,
      p.k,
      p.a.row,
      p.a.column,
      p.a.batch,
      p.b.row,
      p.b.column,
      p.b.batch,
      p.c.row,
      p.c.batch,
      p.column_bias != nullptr);
}

bool run(const Queue& queue, const GemmProblem& p) {
  Onednn& library = Onednn::of(queue);
  const Cutting cutting(p);
  const auto plan_for = [&](std::int64_t piece) {
    const OneThreadScope alone;
    const GemmProblem part = cutting.part(p, piece);
    return library.plans.get(
        key_of(part), [&] { return onednn_plan([&] { return make_plan(library.engine, part); }); });
  };
  const std::int64_t last = cutting.pieces.count() - 1;
  const auto plan = plan_for(0), last_plan = plan_for(last);
  if (!plan->usable || !last_plan->usable)
    return false;
  for_each_piece(cutting.pieces, [&](std::int64_t piece) {
    const GemmProblem part = cutting.part(p, piece);
    const OnednnPlan& its = piece == last ? *last_plan : *plan;
    OnednnCall call("matmul", queue, its);
    call.input(DNNL_ARG_SRC, its.x, part.a.data);
    call.input(DNNL_ARG_WEIGHTS, its.weight, part.b.data);
    if (part.column_bias != nullptr)
      call.plain(DNNL_ARG_BIAS, its.bias, const_cast<void*>(part.column_bias));
    call.output(DNNL_ARG_DST, its.y, part.c.data);
    call.run();
  });
  return true;
}

// A matrix, or a batch of them, in float32 and without gaps: rows or columns as neighbours, as they were.
struct WideMatrix {
  Shape shape, from, to;
  std::int64_t size;
  Matrix matrix;

  WideMatrix(const Matrix& narrow, std::int64_t batch, std::int64_t rows, std::int64_t columns)
      : shape{narrow.batch == 0 ? 1 : batch, rows, columns},
        from{narrow.batch, narrow.row, narrow.column},
        size(shape.size()) {
    const bool by_rows = is_row_major(narrow, rows, columns);
    matrix.row = by_rows ? columns : 1;
    matrix.column = by_rows ? 1 : rows;
    matrix.batch = shape[0] == 1 ? 0 : rows * columns;
    to = {matrix.batch, matrix.row, matrix.column};
  }
  void widen(const Matrix& narrow, DType dtype, float* data) {
    matrix.data = data;
    cast_on_cpu(plan_strided<2>(shape, {&to, &from}), data, DType::float32, narrow.data, dtype);
  }
  void narrow(const Matrix& target, DType dtype) const {
    cast_on_cpu(plan_strided<2>(shape, {&from, &to}), target.data, dtype, matrix.data, DType::float32);
  }
};

// By way of float32, in which the product is rounded from.
bool run_widened(const Queue& queue, const GemmProblem& p) {
  WideMatrix a(p.a, p.batch, p.m, p.k), b(p.b, p.batch, p.k, p.n), c(p.c, p.batch, p.m, p.n);
  const Workspace floats(queue, static_cast<std::size_t>(a.size + b.size + c.size) * sizeof(float));
  const Widened bias(queue, p.dtype, p.column_bias, p.column_bias == nullptr ? 0 : p.n);
  a.widen(p.a, p.dtype, floats.as<float>());
  b.widen(p.b, p.dtype, floats.as<float>() + a.size);
  c.matrix.data = floats.as<float>() + a.size + b.size;
  GemmProblem wide = p;
  wide.dtype = DType::float32;
  wide.a = a.matrix;
  wide.b = b.matrix;
  wide.c = c.matrix;
  wide.column_bias = bias.data();
  if (!run(queue, wide))
    return false;
  c.narrow(p.c, p.dtype);
  return true;
}

}  // namespace

bool product_onednn(const Queue& queue, const GemmProblem& p) {
  if (!takes(p) || !has_onednn("matmul"))
    return false;
  // Half types are multiplied in pairs, and kernels of oneDNN 2.6 for AMX crash with some odd k, 63 say.
  const bool in_pairs = p.dtype == DType::float32 || p.k % 2 == 0;
  if (in_pairs && onednn_computes(p.dtype) && run(queue, p))
    return true;
  return p.dtype != DType::float32 && !p.c_in_accumulator && run_widened(queue, p);
}

#else
bool product_onednn(const Queue&, const GemmProblem&) {
  return false;
}
#endif

}  // namespace sluice::detail
