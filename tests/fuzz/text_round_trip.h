// What must hold for any text: it is read or refused with an error, and what is read and verified prints as text that reads back the same.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "ir/compare.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "support/error.h"

namespace thalweg::tests {

// Aborts when the rule is broken. True when the text was a good program.
inline bool text_round_trip(std::string_view text) {
  std::unique_ptr<ir::Module> module;
  try {
    module = ir::parse(text, "fuzz");
    ir::verify(*module);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Internal) return false;
    std::cerr << error.what() << "\n";
    std::abort();
  }
  const std::string printed = ir::print(*module);
  try {
    const std::string different = ir::difference(*module, *ir::parse(printed, "printed"));
    if (different.empty()) return true;
    std::cerr << different << "\n" << printed;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n" << printed;
  }
  std::abort();
}

}  // namespace thalweg::tests
