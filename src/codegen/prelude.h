// The text before every kernel.
#pragma once

namespace thalweg::codegen {

// ir/scalar.h, put into the library by the build, with its names in scope; zero-terminated.
extern const char kPrelude[];

}  // namespace thalweg::codegen
