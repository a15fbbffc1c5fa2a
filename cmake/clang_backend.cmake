# The kernels' prelude as data in codegen, and libthalweg_clang.so: Clang and LLVM 19 behind the C interface of codegen/cpu/clang/backend.h.
set(_scalar ${CMAKE_SOURCE_DIR}/src/ir/scalar.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_scalar})
file(READ ${_scalar} _text)
string(REPLACE "#pragma once\n" "" _text "${_text}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/prelude.cpp @ONLY CONTENT [[
// Generated from src/ir/scalar.h: the text before every kernel.
namespace thalweg::codegen {
extern const char kPrelude[];
const char kPrelude[] = R"PRELUDE(@_text@
using namespace thalweg::scalar;
)PRELUDE";
}  // namespace thalweg::codegen
]])
target_sources(codegen PRIVATE ${CMAKE_BINARY_DIR}/generated/prelude.cpp)

if(NOT THALWEG_CLANG)
  return()
endif()
find_package(LLVM 19.1 QUIET CONFIG PATHS /usr/lib/llvm-19/lib/cmake/llvm)
find_library(THALWEG_CLANG_CPP NAMES clang-cpp PATHS ${LLVM_LIBRARY_DIR} /usr/lib/llvm-19/lib NO_DEFAULT_PATH)
find_path(THALWEG_CLANG_INCLUDE clang/Frontend/CompilerInstance.h PATHS ${LLVM_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NOT LLVM_FOUND OR NOT THALWEG_CLANG_CPP OR NOT THALWEG_CLANG_INCLUDE)
  message(FATAL_ERROR "The CPU compiler needs LLVM and Clang 19: apt install llvm-19-dev libclang-19-dev libclang-cpp19-dev, or build without it with -DTHALWEG_CLANG=OFF.")
endif()

file(GLOB _sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/codegen/cpu/clang/*.cpp)
add_library(thalweg_clang SHARED ${_sources})
target_include_directories(thalweg_clang PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(thalweg_clang SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${THALWEG_CLANG_INCLUDE})
target_link_libraries(thalweg_clang PRIVATE ${THALWEG_CLANG_CPP} LLVM)
target_link_options(thalweg_clang PRIVATE LINKER:--exclude-libs,ALL LINKER:-z,defs)
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(thalweg_clang PRIVATE -fno-rtti)
endif()
if(TARGET codegen_cpu_test)
  add_dependencies(codegen_cpu_test thalweg_clang)
endif()
