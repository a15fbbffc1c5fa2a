// Object files to functions in this process, by ORC and JITLink.
#pragma once

#include <cstddef>
#include <string>

namespace thalweg::codegen::cpu::clang_backend {

// Links the object for the life of the process and gives the address of `symbol`, or null with the reason in `log`. Objects may use the C library's mathematics
// and memory functions and nothing else of the process. Two objects may define the same name. Thread-safe.
void* load_object(const char* object, std::size_t size, const std::string& symbol, std::string& log);

}  // namespace thalweg::codegen::cpu::clang_backend
