// Rows against numbers that were worked out with 40 digits, in units of the last place; and what their domains end in.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

template <class T>
NDArray line(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

struct Known {
  const char* row;
  double x, y, slope;
};

const Known k_known[] = {
    {"erfinv", 9.5367431640625e-07, 8.45171857312172917e-7, 0.886226925453391059},
    {"erfinv", 0.25, 0.225312055012178105, 0.932378234605972534},
    {"erfinv", -0.5, -0.476936276204469873, 1.1125848189719498},
    {"erfinv", 0.75, 0.813419847597618542, 1.71749976936745227},
    {"erfinv", 0.9375, 1.31715033498613075, 5.02337876129289344},
    {"erfinv", -0.99609375, -2.04045201460560919, 56.977826664880401},
    {"erfinv", 0.9999990463256836, 3.46550502580333072, 145647.244888128712},
    {"erfinv", 0.9999999403953552, 3.83250685690071091, 2120848.0082420371},
    {"gamma", 0.03125, 31.4528351770760613, -1023.06490059898039},
    {"gamma", 0.5, 1.77245385090551603, -3.48023090691326203},
    {"gamma", 1.5, 0.886226925452758014, 0.0323383974488850138},
    {"gamma", 3.75, 4.42298841046025056, 5.23034916476590421},
    {"gamma", -0.5, -3.54490770181103205, -0.129353589795540055},
    {"gamma", -2.25, -1.74281486572825265, -7.24764125685910223},
    {"gamma", 10.5, 1133278.38894878557, 2609941.30189626887},
    {"gamma", 34.0, 8.6833176188118865e+36, 3.04921867204373211e+37},
    {"gammaln", 9.5367431640625e-07, 13.8629430607238996, -1048576.57721409617},
    {"gammaln", 0.5, 0.572364942924700087, -1.96351002602142348},
    {"gammaln", 1.25, -0.0982718364218131615, -0.227453533376265408},
    {"gammaln", 2.5, 0.28468287047291916, 0.703156640645243187},
    {"gammaln", 10.5, 13.9406252194037636, 2.30300103429768638},
    {"gammaln", 300.0, 1409.20206747041179, 5.70211488206463727},
    {"gammaln", -0.5, 1.2655121234846454, 0.0364899739785765206},
    {"gammaln", -3.75, -1.31726794244636367, -1.69238859831133034},
    {"gammaln", 1000000.0, 12815504.5691476117, 13.8155100579641908},
    {"digamma", 0.0009765625, -1024.57561042934062, 1048577.64258939215},
    {"digamma", 0.5, -1.96351002602142348, 4.93480220054467931},
    {"digamma", 1.0, -0.577215664901532861, 1.64493406684822644},
    {"digamma", 2.25, 0.572546466623734592, 0.557329154507110739},
    {"digamma", 10.0, 2.25175258906672111, 0.105166335681685746},
    {"digamma", 1000.0, 6.90725519564881205, 0.00100050016666663333},
    {"digamma", -0.5, 0.0364899739785765206, 8.93480220054467931},
    {"digamma", -7.25, 5.18997721495628789, 19.610354539293269},
    {"digamma", -100.125, 12.1958804424833459, 67.3839365965015309},
    {"sinc", 0.0009765625, 0.99999843126936654, -0.00321275882533777703},
    {"sinc", 0.125, 0.974495358404432645, -0.404926607145167112},
    {"sinc", 0.25, 0.90031631615710607, -0.772838139882234181},
    {"sinc", 0.5, 0.636619772367581343, -1.27323954473516269},
    {"sinc", 1.5, -0.212206590789193781, 0.141471060526129187},
    {"sinc", -2.75, 0.0818469378324641881, 0.286892261461458805},
    {"sinc", 100.5, 0.00316726254909244449, -0.0000315150502397258158},
    {"logit", 9.5367431640625e-07, -13.862942657524135, 1048577.00000095368},
    {"logit", 0.25, -1.09861228866810969, 5.33333333333333333},
    {"logit", 0.4375, -0.251314428280906078, 4.06349206349206349},
    {"logit", 0.5625, 0.251314428280906078, 4.06349206349206349},
    {"logit", 0.75, 1.09861228866810969, 5.33333333333333333},
    {"logit", 0.9990234375, 6.93049476595162648, 1025.00097751710655},
    {"arccosh", 1.0009765625, 0.0441905780831100944, 22.6218947484674003},
    {"arccosh", 1.5, 0.962423650119206895, 0.894427190999915879},
    {"arccosh", 2.0, 1.31695789692481671, 0.577350269189625765},
    {"arccosh", 100.0, 5.29829236561048459, 0.0100005000375031253},
    {"arccosh", 1000000.0, 14.5086577385239694, 1.0000000000005e-6},
    {"arcsinh", 6.103515625e-05, 0.0000610351562121043875, 0.999999998137354856},
    {"arcsinh", -0.5, -0.481211825059603447, 0.894427190999915879},
    {"arcsinh", 1.5, 1.1947632172871093, 0.554700196225229122},
    {"arcsinh", 1000.0, 7.60090270954198861, 0.000999999500000375},
    {"arcsinh", -1000000.0, -14.5086577385244694, 9.999999999995e-7},
    {"arctanh", 6.103515625e-05, 0.0000610351563257912253, 1.00000000372529031},
    {"arctanh", 0.5, 0.549306144334054846, 1.33333333333333333},
    {"arctanh", -0.875, -1.35402510055110503, 4.26666666666666667},
    {"arctanh", 0.9990234375, 3.81206529283064476, 512.250122129946263},
    {"exp2", -20.5, 6.74349576174304509e-7, 4.67423507437013241e-7},
    {"exp2", -1.0, 0.5, 0.346573590279972655},
    {"exp2", 0.3125, 1.24185781207348405, 0.860790241095077878},
    {"exp2", 7.0, 128.0, 88.7228391116729996},
    {"exp2", 30.25, 1276901416.77679948, 885080616.89183821},
    {"rcbrt", 0.001953125, 8.0, -1365.33333333333333},
    {"rcbrt", 0.3125, 1.47361259945615464, -1.57185343941989829},
    {"rcbrt", -2.0, -0.793700525984099737, -0.132283420997349956},
    {"rcbrt", 27.0, 0.333333333333333333, -0.00411522633744855967},
    {"log_sigmoid", -50.0, -50.0, 1.0},
    {"log_sigmoid", -1.0, -1.31326168751822283, 0.731058578630004879},
    {"log_sigmoid", 0.0, -0.693147180559945309, 0.5},
    {"log_sigmoid", 2.0, -0.126928011042972496, 0.119202922022117556},
    {"log_sigmoid", 15.0, -3.05902273713720486e-7, 3.05902226925624725e-7},
    {"mish", -15.0, -4.58853410570566416e-6, -4.28263113017023056e-6},
    {"mish", -1.0, -0.303401461374108918, 0.059216755877394948},
    {"mish", 0.5, 0.375245211304895105, 0.886424375357727258},
    {"mish", 8.0, 7.99999820064484229, 1.00000337258368815},
    {"gelu_tanh", -3.0, -0.00363739208177301884, -0.0115841666309697262},
    {"gelu_tanh", -0.5, -0.154285990174856078, 0.132630096465357688},
    {"gelu_tanh", 1.0, 0.841191990608276705, 1.08296408384578256},
    {"gelu_tanh", 4.0, 3.99992975405180763, 1.00033512319712267},
    {"selu", -5.0, -1.74625336066962014, 0.0118459801777567207},
    {"selu", -0.0625, -0.106517854331589646, 1.65158148651578721},
    {"selu", 2.0, 2.10140197471096099, 1.05070098735548049},
};

struct KnownPolygamma {
  std::int64_t n;
  double x, y;
};

const KnownPolygamma k_polygamma[] = {
    {0, 0.25, -4.22745353337626541},         {0, 1.0, -0.577215664901532861},
    {0, 2.5, 0.703156640645243187},          {0, 20.0, 2.97052399224214905},
    {0, -0.75, -2.89412020004293207},        {0, -3.5, 1.3888709263595289},
    {0, -1000.25, 10.0500976930667059},      {1, 0.25, 17.1973291545071107},
    {1, 1.0, 1.64493406684822644},           {1, 2.5, 0.490357756100234865},
    {1, 20.0, 0.0512708229352031198},        {1, -0.75, 18.9751069322848885},
    {1, -3.5, 9.62087929805034824},          {1, -1000.25, 19.7382095516997849},
    {2, 0.25, -129.32773993753692},          {2, 1.0, -2.40411380631918857},
    {2, 2.5, -0.236204051641727403},         {2, 20.0, -0.00262812240231465459},
    {2, -0.75, -124.58699919679618},         {2, -1000.25, 124.025105722697844},
    {3, 0.25, 1538.7821440091884},           {3, 1.0, 6.49393940226682915},
    {3, 2.5, 0.223905848817252051},          {3, 20.0, 0.000269374221339638915},
    {3, -0.75, 1557.74510697215136},         {3, -3.5, 194.787859559462508},
    {3, -1000.25, 1558.54545654204349},      {10, 0.25, -15220290667405.55},
    {10, 1.0, -3630593.31160662871},         {10, 2.5, -156.229596593232995},
    {1, -1e-10, 1e20 + 1.64493406684822644}, {2, -1e-10, 2e30},
    {10, 20.0, -4.51037705498184323e-8},     {10, -0.75, -15220204748421.0049},
    {10, -1000.25, 15220204740668.3411},     {50, 0.25, -1.542177740101971e+95},
    {50, 1.0, -3.04140932017133916e+64},     {50, 2.5, -1.54217779450283401e+44},
    {50, 20.0, -0.0147451574909062494},      {50, -0.75, -1.542177740101971e+95},
    {50, -1000.25, 1.542177740101971e+95},
};

// The distance in units of what the type holds around `want`, or around `least` if that is more.
double ulps(double got, double want, DType dtype, double least = 0x1p-100) {
  if (std::isnan(got) || std::isnan(want) || std::isinf(got) || std::isinf(want))
    return got == want || (std::isnan(got) && std::isnan(want)) ? 0 : k_inf;
  const int digits = dtype == float64 ? 53 : 24;
  return std::fabs(got - want) / std::ldexp(1.0, std::ilogb(std::max(std::fabs(want), least)) + 1 - digits);
}

NDArray call(const char* name, const NDArray& x) {
  const Operator& op = *find_operator(name);
  return invoke_one(op, {x}, make_attributes(op, {}), {});
}

// Value and gradient, of enough elements for vectors.
std::pair<double, double> at(const char* name, double x, DType dtype, Device device) {
  NDArray v = full({67}, x, {.dtype = dtype, .device = device});
  v.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = call(name, v);
  y.backward();
  return {y.to_vector<double>()[66], v.grad().to_vector<double>()[66]};
}

void check_known(Device device) {
  for (const DType dtype : {float32, float64}) {
    for (const Known& known : k_known) {
      const auto [y, slope] = at(known.row, known.x, dtype, device);
      CAPTURE(known.row, known.x, dtype, y, slope);
      // Around their zeros these are exact to so much.
      const std::string name = known.row;
      const double least = name == "digamma" || name == "gammaln" ? 0.5 : 0x1p-100;
      CHECK(ulps(y, known.y, dtype, least) <= (device == cpu() ? 8 : 16));
      CHECK(ulps(slope, known.slope, dtype) <= 24);
    }
    for (const KnownPolygamma& known : k_polygamma) {
      const double y =
          polygamma(full({3}, known.x, {.dtype = dtype, .device = device}), known.n).to_vector<double>()[2];
      CAPTURE(known.n, known.x, dtype, y);
      const double want = dtype == float64 ? known.y : static_cast<float>(known.y);
      CHECK(ulps(y, want, dtype) <= (dtype == float64 ? 40 : 2));
    }
  }
}

std::vector<double> ends(const char* name, const std::vector<double>& x, DType dtype, Device device) {
  return call(name, line(x).astype(dtype).to(device)).to_vector<double>();
}

bool same(const std::vector<double>& got, const std::vector<double>& want) {
  bool all = got.size() == want.size();
  for (std::size_t i = 0; all && i < got.size(); ++i)
    all = (std::isnan(got[i]) && std::isnan(want[i])) ||
          (got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i]));
  return all;
}

void check_ends(Device device) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(dtype);
    const auto gives = [&](const char* name, const std::vector<double>& x, const std::vector<double>& want) {
      CAPTURE(name);
      CHECK(same(ends(name, x, dtype, device), want));
    };
    gives("erfinv", {-1, 1, 1.5, -k_inf, k_nan, -0.0}, {-k_inf, k_inf, k_nan, k_nan, k_nan, -0.0});
    gives("gamma", {0, -0.0, -1, -2, k_inf, -k_inf, k_nan}, {k_inf, -k_inf, k_nan, k_nan, k_inf, k_nan, k_nan});
    gives("gammaln", {0, -0.0, -1, 1, 2, k_inf, -k_inf, k_nan}, {k_inf, k_inf, k_inf, 0, 0, k_inf, k_inf, k_nan});
    gives("digamma", {0, -0.0, -1, k_inf, -k_inf, k_nan}, {-k_inf, k_inf, k_nan, k_inf, k_nan, k_nan});
    gives("polygamma", {0, -1, -2, k_inf, k_nan}, {k_inf, k_inf, k_inf, 0, k_nan});
    gives("logit", {0, 1, 0.5, -0.5, 1.5, k_nan}, {-k_inf, k_inf, 0, k_nan, k_nan, k_nan});
    gives("sinc", {0, -0.0, k_inf, k_nan}, {1, 1, k_nan, k_nan});
    gives("arccosh", {1, 0.5, -2, k_inf, -k_inf, k_nan}, {0, k_nan, k_nan, k_inf, k_nan, k_nan});
    gives("arcsinh", {0, -0.0, k_inf, -k_inf, k_nan}, {0, -0.0, k_inf, -k_inf, k_nan});
    gives("arctanh", {0, -0.0, 1, -1, 1.5, k_inf, k_nan}, {0, -0.0, k_inf, -k_inf, k_nan, k_nan, k_nan});
    gives("exp2", {0, k_inf, -k_inf, 3, -2, k_nan}, {1, k_inf, 0, 8, 0.25, k_nan});
    gives("rcbrt", {0, -0.0, k_inf, -k_inf, k_nan}, {k_inf, -k_inf, 0, -0.0, k_nan});
    gives("signbit", {0, -0.0, 1, -1, k_inf, -k_inf}, {0, 1, 0, 1, 0, 1});
    gives("isposinf", {k_inf, -k_inf, k_nan, 0}, {1, 0, 0, 0});
    gives("isneginf", {k_inf, -k_inf, k_nan, 0}, {0, 1, 0, 0});
  }
}

}  // namespace

TEST_CASE("Rows give numbers of 40 digits to some units of the last place", "[operator][elementwise][functions]") {
  check_known(cpu());
}

TEST_CASE("Rows at the ends of their domains", "[operator][elementwise][functions][special]") {
  check_ends(cpu());
}

TEST_CASE("Rows give known numbers, and ends of domains, on a GPU", "[operator][elementwise][functions][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_known(gpu());
  check_ends(gpu());
}

TEST_CASE("polygamma takes orders from 0 on, and says which it does not", "[operator][elementwise][functions]") {
  const NDArray x = array<double>({0.5, 3});
  CHECK(test::differences(polygamma(x, 0), digamma(x)) == "");
  CHECK(polygamma(x, 160).to_vector<double>()[0] < 0);
  CHECK_THROWS_AS(polygamma(x, -1), ValueError);
  CHECK_THROWS_AS(polygamma(x, 161), ValueError);
  CHECK_THROWS_WITH(polygamma(x, 161), test::contains("polygamma") && test::contains("161"));
  CHECK(polygamma(array<std::int32_t>({1}), 1).dtype() == float32);
}

namespace {

// Whole multiples of a divisor and their neighbours: there the quotient, rounded, says too much.
template <class T>
void check_quotients() {
  std::vector<T> a, b;
  std::vector<double> want, rest;
  for (int k = -40; k < 400; k += k == -1 ? 2 : 1) {
    const T divisor = static_cast<T>(0.1) + static_cast<T>(0.013) * static_cast<T>(k % 37);
    const T product = static_cast<T>(k) * divisor;
    for (const T dividend : {product, std::nextafter(product, T(1e9)), std::nextafter(product, T(-1e9))}) {
      a.push_back(dividend);
      b.push_back(divisor);
      rest.push_back(std::fmod(dividend, divisor));
      const auto quotient = static_cast<long double>(dividend) / static_cast<long double>(divisor);
      want.push_back(static_cast<double>(std::floor(quotient)));
    }
  }
  CHECK(floor_divide(line(a), line(b)).template to_vector<double>() == want);
  CHECK(fmod(line(a), line(b)).template to_vector<double>() == rest);
}

}  // namespace

TEST_CASE(
    "floor_divide is exact where the quotient is rounded up to a whole number", "[operator][elementwise][functions]") {
  check_quotients<float>();
  check_quotients<double>();
  const NDArray whole = array<std::int32_t>({7, -7, 7, -7, 5, std::numeric_limits<std::int32_t>::min()});
  const NDArray by = array<std::int32_t>({2, 2, -2, -2, 0, -1});
  CHECK(
      floor_divide(whole, by).to_vector<std::int32_t>() ==
      std::vector<std::int32_t>{3, -4, -4, 3, 0, std::numeric_limits<std::int32_t>::min()});
  CHECK(fmod(whole, by).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -1, 1, -1, 0, 0});
  CHECK(same(
      floor_divide(array<double>({1, -1, 0, k_inf, 1, -1, k_nan}), array<double>({0, 0, 0, 2, k_inf, k_inf, 1}))
          .to_vector<double>(),
      {k_inf, -k_inf, k_nan, k_nan, 0, -1, k_nan}));
}

TEST_CASE("The gradient of polygamma by name comes to an end for any order", "[operator][elementwise][functions]") {
  const Operator& op = *find_operator("polygamma_backward");
  const NDArray x = array<double>({0.5, 3, 1e18, -0.25, -1e18}), dy = ones({5}, {.dtype = float64});
  for (const std::int64_t n : {std::int64_t{150}, std::int64_t{5000}, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    const Arrays inputs{dy, x, x};
    CHECK(invoke(op, inputs, parse_attributes(op, message("n=", n)), {})[0].to_vector<double>().size() == 5);
  }
}

TEST_CASE("ldexp reaches what neither factor does", "[operator][elementwise][functions]") {
  const double least = std::numeric_limits<double>::min(), largest = std::numeric_limits<double>::max();
  const NDArray x = array<double>({least, largest, 1, 0, k_inf, -3});
  const NDArray by = array<double>({2045, -2045, 1e6, 5000, -5000, 4});
  CHECK(
      ldexp(x, by).to_vector<double>() ==
      std::vector<double>{std::ldexp(least, 2045), std::ldexp(largest, -2045), k_inf, 0, k_inf, -48});
  CHECK(
      ldexp(array<float>({0x1p-126f, 0x1p127f, 0, 1}), array<std::int32_t>({250, -250, 300, -30})).to_vector<float>() ==
      std::vector<float>{0x1p124f, 0x1p-123f, 0, 0x1p-30f});
}
