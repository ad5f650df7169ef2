// Printing: each expected text is what str() of the same array gives in NumPy 2.4.
#include <cmath>
#include <sstream>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

template <class T>
NDArray made(const std::vector<T>& values, const Shape& shape, DType dtype) {
  return from_values(values.data(), dtype_of<T>, static_cast<std::int64_t>(values.size()), shape, {.dtype = dtype});
}

NDArray shaped(const NDArray& array, const Shape& shape) {
  return detail::make_view(array, shape, contiguous_strides(shape), 0);
}

}  // namespace

TEST_CASE("Integers and booleans line up") {
  REQUIRE(made<std::int64_t>({1, 2, 3}, {3}, int32).to_string() == "[1 2 3]");
  REQUIRE(made<std::int64_t>({1, -20, 300}, {3}, int64).to_string() == "[  1 -20 300]");
  REQUIRE(
      made<std::int64_t>({0, 1, 2, 3, 4, 5}, {2, 3}, int32).to_string() ==
      "[[0 1 2]\n"
      " [3 4 5]]");
  REQUIRE(
      made<std::int64_t>({255, 3}, {2, 1}, uint8).to_string() ==
      "[[255]\n"
      " [  3]]");
  REQUIRE(
      made<std::int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2}, int8).to_string() ==
      "[[[ 0  1]\n"
      "  [ 2  3]\n"
      "  [ 4  5]]\n"
      "\n"
      " [[ 6  7]\n"
      "  [ 8  9]\n"
      "  [10 11]]]");
  REQUIRE(array(std::vector<bool>{true, false, true}, {3}).to_string() == "[ True False  True]");
  REQUIRE(array(std::vector<bool>{true, true}, {1, 2}).to_string() == "[[ True  True]]");
}

TEST_CASE("Floats show what tells them apart, to eight digits behind the point") {
  REQUIRE(made<double>({1.0, 2.0, 3.0}, {3}, float32).to_string() == "[1. 2. 3.]");
  REQUIRE(
      made<double>({0.10000000149011612, 0.25, 0.3333333432674408}, {3}, float32).to_string() ==
      "[0.1        0.25       0.33333334]");
  REQUIRE(
      made<double>({0.1, 0.3333333333333333, 0.6666666666666666}, {3}, float64).to_string() ==
      "[0.1        0.33333333 0.66666667]");
  REQUIRE(made<double>({1.5, -2.25, 100.125}, {3}, float64).to_string() == "[  1.5    -2.25  100.125]");
  REQUIRE(
      made<double>({1.0, 2.5, -3.125, 4.0}, {2, 2}, float32).to_string() ==
      "[[ 1.     2.5  ]\n"
      " [-3.125  4.   ]]");
  REQUIRE(made<double>({0.123456789012, 1.0}, {2}, float64).to_string() == "[0.12345679 1.        ]");
  REQUIRE(
      made<double>({123456.789, 0.001, 1.0}, {3}, float64).to_string() ==
      "[1.23456789e+05 1.00000000e-03 1.00000000e+00]");
  REQUIRE(made<double>({0.0, -0.0, 1.0}, {3}, float32).to_string() == "[ 0. -0.  1.]");
  REQUIRE(made<double>({0.0999755859375, 0.3330078125, 2.0}, {3}, float16).to_string() == "[0.1   0.333 2.   ]");
  REQUIRE(made<double>({65504.0, 1.0, 0.5}, {3}, float16).to_string() == "[6.55e+04 1.00e+00 5.00e-01]");
}

TEST_CASE("Floats that lie far apart are printed with exponents") {
  REQUIRE(made<double>({9.999999747378752e-06, 1.0}, {2}, float32).to_string() == "[1.e-05 1.e+00]");
  REQUIRE(made<double>({10000000000.0, 1.0}, {2}, float64).to_string() == "[1.e+10 1.e+00]");
  REQUIRE(made<double>({100000000.0}, {1}, float32).to_string() == "[1.e+08]");
  REQUIRE(made<double>({1234.5, 0.5}, {2}, float32).to_string() == "[1.2345e+03 5.0000e-01]");
  REQUIRE(made<double>({1e-100, 1e+100}, {2}, float64).to_string() == "[1.e-100 1.e+100]");
  REQUIRE(made<double>({1.23456789012e-07, 3.0}, {2}, float64).to_string() == "[1.23456789e-07 3.00000000e+00]");
  REQUIRE(made<double>({100000000.0}, {1}, float32).to_string() == "[1.e+08]");
  REQUIRE(made<double>({9.999999747378752e-05, 0.10000000149011612}, {2}, float32).to_string() == "[1.e-04 1.e-01]");
  REQUIRE(
      made<double>({9.999000030802563e-05, 0.05000000074505806}, {2}, float32).to_string() == "[9.999e-05 5.000e-02]");
  REQUIRE(made<double>({5.960464477539063e-08, 1.0}, {2}, float16).to_string() == "[6.e-08 1.e+00]");
}

TEST_CASE("Infinities and NaNs line up") {
  REQUIRE(made<double>({1.0, NAN, INFINITY}, {3}, float32).to_string() == "[ 1. nan inf]");
  REQUIRE(made<double>({-INFINITY, 1.5}, {2}, float32).to_string() == "[-inf  1.5]");
  REQUIRE(made<double>({NAN, NAN}, {2}, float32).to_string() == "[nan nan]");
  REQUIRE(made<double>({INFINITY, 1e-10}, {2}, float64).to_string() == "[   inf 1.e-10]");
  REQUIRE(made<double>({-INFINITY, INFINITY}, {2}, float64).to_string() == "[-inf  inf]");
  REQUIRE(
      made<double>({NAN, 1.0, 2.0, 3.0}, {2, 2}, float32).to_string() ==
      "[[nan  1.]\n"
      " [ 2.  3.]]");
}

TEST_CASE("Arrays of C++ values: rows, vectors, and counts up to a number") {
  REQUIRE(array({{1, 2, 3}, {4, 5, 6}}).to_string() == "[[1 2 3]\n [4 5 6]]");
  REQUIRE(array({{true, false}}).dtype() == bool_);
  REQUIRE(array<float>({}).shape() == Shape{0});
  REQUIRE(array<float>({{1, 2}, {3, 4}}).shape() == Shape{2, 2});
  REQUIRE(array<float>({{1, 2}}).shape() == Shape{1, 2});
  REQUIRE_THROWS_AS(array({{1.F, 2.F}, {3.F}}), ShapeError);
  REQUIRE(array(std::vector<double>{0.5, 1}).to_string() == "[0.5 1. ]");
  REQUIRE(array(std::vector<bool>{true, false}).dtype() == bool_);
  REQUIRE(array(std::vector<int>{7}, {}).shape() == Shape{});
  REQUIRE(arange(3).to_string() == "[0. 1. 2.]");
  REQUIRE(arange(2, {.dtype = int64}).dtype() == int64);
  REQUIRE(arange(-1).size() == 0);
}

TEST_CASE("Arrays without axes print as numbers") {
  REQUIRE(made<double>({1.5}, {}, float32).to_string() == "1.5");
  REQUIRE(made<double>({0.10000000149011612}, {}, float32).to_string() == "0.1");
  REQUIRE(made<double>({0.3333333333333333}, {}, float64).to_string() == "0.3333333333333333");
  REQUIRE(made<std::int64_t>({-7}, {}, int32).to_string() == "-7");
  REQUIRE(array(std::vector<bool>{true}, {}).to_string() == "True");
  REQUIRE(made<double>({1e-05}, {}, float64).to_string() == "1e-05");
  REQUIRE(made<double>({1e+20}, {}, float64).to_string() == "1e+20");
  REQUIRE(made<double>({123456789.0}, {}, float64).to_string() == "123456789.0");
  REQUIRE(made<double>({3.0}, {}, float32).to_string() == "3.0");
  REQUIRE(made<double>({0.0999755859375}, {}, float16).to_string() == "0.1");
  REQUIRE(made<double>({NAN}, {}, float32).to_string() == "nan");
  REQUIRE(made<double>({1e+16}, {}, float64).to_string() == "1e+16");
  REQUIRE(made<double>({9.999999747378752e-05}, {}, float32).to_string() == "1e-04");
}

TEST_CASE("Arrays without elements print as brackets") {
  REQUIRE(made<double>({}, {0}, float32).to_string() == "[]");
  REQUIRE(made<double>({}, {2, 0}, float32).to_string() == "[]");
}

TEST_CASE("Long rows wrap at 75 characters") {
  REQUIRE(
      arange(0, 40, 1, {.dtype = int32}).to_string() ==
      "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
      " 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]");
  REQUIRE(
      arange(0, 20, 0.5).to_string() ==
      "[ 0.   0.5  1.   1.5  2.   2.5  3.   3.5  4.   4.5  5.   5.5  6.   6.5\n"
      "  7.   7.5  8.   8.5  9.   9.5 10.  10.5 11.  11.5 12.  12.5 13.  13.5\n"
      " 14.  14.5 15.  15.5 16.  16.5 17.  17.5 18.  18.5 19.  19.5]");
  REQUIRE(
      shaped(arange(0, 60, 1, {.dtype = int64}), {2, 30}).to_string() ==
      "[[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
      "  24 25 26 27 28 29]\n"
      " [30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53\n"
      "  54 55 56 57 58 59]]");
}

TEST_CASE("More than a thousand elements are summarised by their edges") {
  REQUIRE(arange(0, 1001, 1, {.dtype = int32}).to_string() == "[   0    1    2 ...  998  999 1000]");
  REQUIRE(
      shaped(arange(0, 10000), {100, 100}).to_string() ==
      "[[0.000e+00 1.000e+00 2.000e+00 ... 9.700e+01 9.800e+01 9.900e+01]\n"
      " [1.000e+02 1.010e+02 1.020e+02 ... 1.970e+02 1.980e+02 1.990e+02]\n"
      " [2.000e+02 2.010e+02 2.020e+02 ... 2.970e+02 2.980e+02 2.990e+02]\n"
      " ...\n"
      " [9.700e+03 9.701e+03 9.702e+03 ... 9.797e+03 9.798e+03 9.799e+03]\n"
      " [9.800e+03 9.801e+03 9.802e+03 ... 9.897e+03 9.898e+03 9.899e+03]\n"
      " [9.900e+03 9.901e+03 9.902e+03 ... 9.997e+03 9.998e+03 9.999e+03]]");
  REQUIRE(
      shaped(arange(0, 2000, 1, {.dtype = int64}), {2, 500, 2}).to_string() ==
      "[[[   0    1]\n"
      "  [   2    3]\n"
      "  [   4    5]\n"
      "  ...\n"
      "  [ 994  995]\n"
      "  [ 996  997]\n"
      "  [ 998  999]]\n"
      "\n"
      " [[1000 1001]\n"
      "  [1002 1003]\n"
      "  [1004 1005]\n"
      "  ...\n"
      "  [1994 1995]\n"
      "  [1996 1997]\n"
      "  [1998 1999]]]");
  REQUIRE(
      detail::make_view(arange(0, 3000, 1, {.dtype = int32}), {1500}, {2}, 1).to_string() ==
      "[   1    3    5 ... 2995 2997 2999]");
}

TEST_CASE("Three axes are summarised at every depth") {
  REQUIRE(
      shaped(arange(0, 1200, 1, {.dtype = int32}), {10, 10, 12}).to_string() ==
      "[[[   0    1    2 ...    9   10   11]\n"
      "  [  12   13   14 ...   21   22   23]\n"
      "  [  24   25   26 ...   33   34   35]\n"
      "  ...\n"
      "  [  84   85   86 ...   93   94   95]\n"
      "  [  96   97   98 ...  105  106  107]\n"
      "  [ 108  109  110 ...  117  118  119]]\n"
      "\n"
      " [[ 120  121  122 ...  129  130  131]\n"
      "  [ 132  133  134 ...  141  142  143]\n"
      "  [ 144  145  146 ...  153  154  155]\n"
      "  ...\n"
      "  [ 204  205  206 ...  213  214  215]\n"
      "  [ 216  217  218 ...  225  226  227]\n"
      "  [ 228  229  230 ...  237  238  239]]\n"
      "\n"
      " [[ 240  241  242 ...  249  250  251]\n"
      "  [ 252  253  254 ...  261  262  263]\n"
      "  [ 264  265  266 ...  273  274  275]\n"
      "  ...\n"
      "  [ 324  325  326 ...  333  334  335]\n"
      "  [ 336  337  338 ...  345  346  347]\n"
      "  [ 348  349  350 ...  357  358  359]]\n"
      "\n"
      " ...\n"
      "\n"
      " [[ 840  841  842 ...  849  850  851]\n"
      "  [ 852  853  854 ...  861  862  863]\n"
      "  [ 864  865  866 ...  873  874  875]\n"
      "  ...\n"
      "  [ 924  925  926 ...  933  934  935]\n"
      "  [ 936  937  938 ...  945  946  947]\n"
      "  [ 948  949  950 ...  957  958  959]]\n"
      "\n"
      " [[ 960  961  962 ...  969  970  971]\n"
      "  [ 972  973  974 ...  981  982  983]\n"
      "  [ 984  985  986 ...  993  994  995]\n"
      "  ...\n"
      "  [1044 1045 1046 ... 1053 1054 1055]\n"
      "  [1056 1057 1058 ... 1065 1066 1067]\n"
      "  [1068 1069 1070 ... 1077 1078 1079]]\n"
      "\n"
      " [[1080 1081 1082 ... 1089 1090 1091]\n"
      "  [1092 1093 1094 ... 1101 1102 1103]\n"
      "  [1104 1105 1106 ... 1113 1114 1115]\n"
      "  ...\n"
      "  [1164 1165 1166 ... 1173 1174 1175]\n"
      "  [1176 1177 1178 ... 1185 1186 1187]\n"
      "  [1188 1189 1190 ... 1197 1198 1199]]]");
}

TEST_CASE("Undefined arrays and streams print") {
  std::ostringstream out;
  out << NDArray() << ' ' << array<int>({1, 2});
  REQUIRE(out.str() == "undefined [1 2]");
  REQUIRE_THROWS_AS(NDArray().to_string(), ValueError);
}

TEST_CASE("What cannot be printed names no line of the library's") {
  NDArray lost;
  {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    lost = made<double>({1, 2}, {2}, float32);
  }
  try {
    lost.to_string();
    FAIL("printed");
  } catch (const EngineStopped& error) {
    REQUIRE(error.what() == error.message());
  }
}
