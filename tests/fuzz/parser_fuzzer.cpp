// libFuzzer target of the parser, verifier and printer. Build: cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++-19 -DTHALWEG_FUZZ=ON, then
// ninja parser_fuzzer; run: build/fuzz/parser_fuzzer tests/fuzz/corpus.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/text_round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thalweg::tests::text_round_trip({reinterpret_cast<const char*>(data), size});
  return 0;
}
