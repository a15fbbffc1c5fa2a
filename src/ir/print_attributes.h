// Attributes and constants as text.
#pragma once

#include <string>
#include <string_view>

#include "ir/attributes.h"

namespace thalweg::ir {

// "text" with quotes and escapes.
std::string quoted(std::string_view text);
// A symbol with its at sign, quoted where it must be.
std::string symbol_text(std::string_view name);
// [1, 2]
std::string list_text(const Dims& dims);
// {a = 1 : i64, b}, leaving out the names in `without`; empty when nothing is left.
std::string dictionary_text(const Attributes& attrs, const std::vector<std::string_view>& without = {});
// Convolution dimension numbers as [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f].
std::string convolution_text(const Attributes& numbers);
// A float as text whose nearest double, or bit pattern, is `value` of `dtype`.
std::string float_text(DType dtype, double value);
// As ir/printer.h declares.
std::string print(const Attribute& attribute);
std::string print(const Literal& literal);

}  // namespace thalweg::ir
