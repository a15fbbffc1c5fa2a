// CHLO's functions of mathematics, in long double or complex long double.
#pragma once

#include <complex>
#include <string_view>

namespace thalweg::interp {

using Complex = std::complex<long double>;
using RealFn = long double (*)(long double);
using RealFn2 = long double (*)(long double, long double);
using ComplexFn = Complex (*)(Complex);

// The function CHLO calls `name` (without "chlo."), or null.
RealFn real_function(std::string_view name);
RealFn2 real_function_2(std::string_view name);
ComplexFn complex_function(std::string_view name);

}  // namespace thalweg::interp
