// Attributes: by name and as text, for every operator; what does not fit is a typed error that says why.
#include <cmath>
#include <limits>
#include <locale>
#include <type_traits>
#include <utility>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

struct EveryKind {
  bool flag = true;
  std::int64_t count = -3;
  double rate = 0.1;
  std::string mode = "a, \"b\" \\";
  DType dtype = float16;
  Device device = gpu(1);
  Scalar number = 2.5;
  Shape shape{2, 3};
  std::vector<std::int64_t> list{7};
  std::vector<double> weights{0.5, -1e300};
  std::optional<double> maybe = std::nullopt;

  template <class V>
  void visit(V&& v) {
    v.field("flag", flag);
    v.field("count", count);
    v.field("rate", rate);
    v.field("mode", mode);
    v.field("dtype", dtype);
    v.field("device", device);
    v.field("number", number);
    v.field("shape", shape);
    v.field("list", list);
    v.field("weights", weights);
    v.field("maybe", maybe);
  }
};

Specs same_spec(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}
void nothing(const KernelCall&) {}

const Operator k_every{
    .name = "every", .attributes = &attribute_type<EveryKind>, .infer = same_spec, .kernels = {on_cpu(nothing)}};

/// Does not compile where what it visits could be changed.
struct Reader {
  int fields = 0;

  template <class T>
  void field(const char*, T&) {
    static_assert(std::is_const_v<T>, "visitors of attributes that calls share get constants");
    ++fields;
  }
};

template <class A>
concept VisitedWhereItLies = requires(const A& attributes, Reader& v) {
  attributes.visit(v);
};
static_assert(!VisitedWhereItLies<EveryKind>);
static_assert(!VisitedWhereItLies<NoAttributes>);
static_assert(std::is_same_v<decltype(std::declval<const Attributes&>().as<EveryKind>()), const EveryKind&>);

/// Whose visit() itself writes, and takes a visitor that has a name. `Beside` makes it one that lies in place, or one
/// that is shared.
template <class Beside>
struct Restless {
  std::int64_t count = 0;
  Beside beside = {};

  template <class V>
  void visit(V& v) {
    v.field("count", count);
    ++count;
    beside = {};
  }
};

const EveryKind& as_every(const Attributes& attributes) {
  return attributes.as<EveryKind>();
}

/// The message of the ValueError that `call` throws; empty if it throws none.
template <class F>
std::string refused(F call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("attributes print by name with all their digits", "[operator][attributes]") {
  CHECK(to_string(Attributes()) == "");
  CHECK(
      to_string(Attributes::of(EveryKind{})) ==
      "flag=true, count=-3, rate=0.1, mode=\"a, \\\"b\\\" \\\\\", dtype=float16, device=gpu(1), "
      "number=2.5, shape=(2, 3), list=(7,), weights=(0.5, -1e+300), maybe=none");
}

TEST_CASE("attributes are made from the text that they print", "[operator][attributes]") {
  EveryKind other;
  other.flag = false;
  other.count = std::numeric_limits<std::int64_t>::min();
  other.rate = -std::numeric_limits<double>::infinity();
  other.mode = "";
  other.dtype = bool_;
  other.device = cpu();
  other.number = true;
  other.shape = {};
  other.list = {};
  other.weights = {1, 2};
  other.maybe = std::numeric_limits<double>::denorm_min();
  for (const EveryKind& values : {EveryKind{}, other}) {
    const std::string text = to_string(Attributes::of(values));
    const Attributes read = parse_attributes(k_every, text);
    CHECK(to_string(read) == text);
    CHECK(read.values() == Attributes::of(values).values());
  }
  // A real number stays one, with its sign, where a whole one would do.
  EveryKind reals;
  reals.rate = -0.0;
  reals.number = 2.0;
  reals.weights = {-0.0, 3};
  const Attributes again = parse_attributes(k_every, to_string(Attributes::of(reals)));
  CHECK(again.values() == Attributes::of(reals).values());
  CHECK(std::signbit(as_every(again).rate));
  CHECK(std::signbit(as_every(again).weights[0]));
  CHECK(as_every(again).number.kind() == Scalar::Kind::real);
  const Attributes some = parse_attributes(k_every, "  count = 5,shape=( 4,5 ) , weights=(1, 0.5)");
  CHECK(as_every(some).count == 5);
  CHECK(as_every(some).shape == Shape{4, 5});
  CHECK(as_every(some).weights == std::vector<double>{1, 0.5});
  CHECK(as_every(some).mode == EveryKind{}.mode);
  CHECK(as_every(parse_attributes(k_every, "")).count == -3);
  CHECK(as_every(parse_attributes(k_every, "rate=2")).rate == 2);
  CHECK(std::isnan(as_every(parse_attributes(k_every, "rate=nan")).rate));
}

TEST_CASE("text that cannot be read says where", "[operator][attributes]") {
  const auto refusal = [](const char* text) { return refused([&] { parse_attributes(k_every, text); }); };
  for (const char* text :
       {"count",
        "count=",
        "=3",
        "count=3 rate=1",
        "count=3,",
        "mode=\"open",
        "mode=\"open\\",
        "shape=(1",
        "shape=(1 2)",
        "shape=(a)",
        "device=gpu",
        "device=gpu(x)",
        "device=gpu(99999)",
        "device=gpu(32767)",
        "device=cpu(-1)",
        "rate=0x",
        "rate=1..2",
        "count=99999999999999999999999",
        "dtype=float17"}) {
    INFO(text);
    CHECK(refusal(text) != "");
    CHECK(refusal(text).find("every: ") == 0);
  }
  CHECK(
      refusal("count=3, rate=?") ==
      "every: attributes \"count=3, rate=?\" cannot be read: a value (3, 0.5, true, \"text\", (1, 2), float32, gpu(0) "
      "or "
      "none) was expected at position 14");
}

TEST_CASE("attributes are made from named values; what does not fit is refused", "[operator][attributes]") {
  const auto make = [](std::vector<NamedValue> values) { return make_attributes(k_every, values); };
  CHECK(as_every(make({{"count", std::int64_t{4}}, {"maybe", 0.5}})).maybe == 0.5);
  CHECK(as_every(make({{"maybe", std::monostate()}})).maybe == std::nullopt);
  CHECK(as_every(make({{"maybe", std::int64_t{2}}})).maybe == 2.0);
  CHECK(as_every(make({{"number", true}})).number.kind() == Scalar::Kind::boolean);
  CHECK(refused([&] {
          make({{"axs", std::int64_t{1}}});
        }).find("every: has no attribute axs; it has flag, count") == 0);
  CHECK(refused([&] { make({{"count", true}, {"count", std::int64_t{1}}}); }) != "");
  CHECK(refused([&] { make({{"flag", true}, {"flag", false}}); }) == "every: the attribute flag is given twice");
  CHECK(refused([&] {
          make({{"count", 2.5}});
        }) == "every: the attribute count cannot be 2.5; it is a whole number, as -3");
  CHECK(refused([&] {
          make({{"maybe", std::string("much")}});
        }) == "every: the attribute maybe cannot be \"much\"; it is a number, as 0.0");
  // A list that is empty by default shows nothing of its kind.
  CHECK(refused([] {
          parse_attributes(*find_operator("sum"), "axes=1");
        }) == "sum: the attribute axes cannot be 1; it is a list of whole numbers, as (1, 2)");
  CHECK(refused([&] { make({{"flag", std::int64_t{1}}}); }) != "");
  CHECK(refused([&] { make({{"rate", std::string("1")}}); }) != "");
  CHECK(refused([&] { make({{"count", std::monostate()}}); }) != "");
  CHECK(refused([&] { make({{"dtype", std::string("float32")}}); }) != "");
  CHECK(refused([&] { make({{"shape", std::vector<double>{1.5}}}); }) != "");
  CHECK(refused([&] { make({{"shape", std::vector<std::int64_t>(k_max_ndim + 1, 1)}}); }) != "");
  CHECK(as_every(make({{"shape", std::vector<std::int64_t>(k_max_ndim, 1)}})).shape.ndim() == k_max_ndim);
}

TEST_CASE("every operator's attributes come back from values and from text", "[operator][attributes]") {
  std::size_t with_fields = 0;
  for (const Operator* op : operators()) {
    INFO(op->name);
    const Attributes defaults = make_attributes(*op, {});
    CHECK(*defaults.type() == *op->attributes);
    with_fields += defaults.values().empty() ? 0 : 1;
    CHECK(make_attributes(*op, defaults.values()).values() == defaults.values());
    CHECK(parse_attributes(*op, to_string(defaults)).values() == defaults.values());
  }
  CHECK(with_fields > 60);
}

TEST_CASE("a call without its attributes, or with another operator's, is refused", "[operator][attributes]") {
  const NDArray x = ones({2, 3});
  for (const Operator* op : operators()) {
    if (op->optional_attributes || *op->attributes == attribute_type<NoAttributes>)
      continue;
    INFO(op->name);
    const std::vector<NDArray> inputs(op->inputs < 0 ? 1 : static_cast<std::size_t>(op->inputs), x);
    const std::string missing = refused([&] { invoke(*op, inputs, {}, {}); });
    CHECK(missing.find(op->name) == 0);
    CHECK(missing.find("was given none") != std::string::npos);
    const std::string wrong = refused([&] { invoke(*op, inputs, Attributes::of(EveryKind{}), {}); });
    CHECK(wrong.find("was given those of another operator: flag=true") != std::string::npos);
  }
  CHECK(refused([&] { invoke_one(*find_operator("exp"), {x}, Attributes::of(EveryKind{}), {}); }) != "");
  CHECK(refused([&] {
          invoke_one(*find_operator("sum"), {x}, {}, {});
        }) == "sum: takes the attributes axes, keepdims; was given none");
}

TEST_CASE("who visits attributes that calls share cannot change them", "[operator][attributes]") {
  Reader visitor;
  const Attributes every = Attributes::of(EveryKind{}), also = every;
  detail::read_fields(as_every(also), visitor);
  CHECK(visitor.fields == 11);
  CHECK(every.values() == Attributes::of(EveryKind{}).values());

  const auto stays = [](const auto& restless) {
    using A = std::decay_t<decltype(restless)>;
    const Attributes shared = Attributes::of(restless), other = shared;
    const std::vector<NamedValue> values = other.values();
    CHECK(other.values() == values);
    CHECK(to_string(other) == "count=0");
    CHECK(shared.values() == values);
    CHECK(shared.template as<A>().count == 0);
    CHECK(shared.template as<A>().beside == restless.beside);
  };
  static_assert(Attributes::k_in_place<Restless<double>> && !Attributes::k_in_place<Restless<std::string>>);
  stays(Restless<double>{.beside = 3});
  stays(Restless<std::string>{.beside = "what others read"});
}

TEST_CASE("an operator is run by its name and the text of its attributes", "[operator][attributes]") {
  const NDArray x = array({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}).reshape({2, 3});
  const Operator& sum = *find_operator("sum");
  const NDArray rows = invoke_one(sum, {x}, parse_attributes(sum, "axes=(1,), keepdims=true"), {});
  CHECK(rows.shape() == Shape{2, 1});
  CHECK(rows.to_vector<float>() == std::vector<float>{6, 15});
}

TEST_CASE("attributes are written and read in no locale", "[operator][attributes]") {
  struct Grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  const std::string text =
      to_string(make_attributes(k_every, std::vector<NamedValue>{{"count", std::int64_t{1234567}}, {"rate", 0.5}}));
  std::string again;
  try {
    again = to_string(parse_attributes(k_every, text));
  } catch (const Error& error) {
    again = error.message();
  }
  std::locale::global(before);
  CHECK(text.find("count=1234567, rate=0.5,") != std::string::npos);
  CHECK(again == text);
}
