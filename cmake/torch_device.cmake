# The torch device: src/aten and src/bindings with every torch-free library in one Python extension module, thalweg/_C.
#
# torch is found by asking the Python of THALWEG_PYTHON for its folder. find_package(Torch) is not used: the PyPI torch is a CUDA build and its CMake files
# demand a CUDA toolkit, which the CPU headers that we include do not need.
if(NOT THALWEG_TORCH)
  return()
endif()

if(DEFINED Python_EXECUTABLE AND NOT DEFINED THALWEG_PYTHON)
  set(THALWEG_PYTHON ${Python_EXECUTABLE})  # scikit-build-core names the Python it builds for
endif()
set(THALWEG_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "The Python whose torch the device is built against")

execute_process(
  COMMAND ${THALWEG_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/find_torch.py
  OUTPUT_VARIABLE _facts ERROR_VARIABLE _complaint RESULT_VARIABLE _failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(_failed)
  message(FATAL_ERROR "The torch device needs a Python with torch; ${THALWEG_PYTHON} gave: ${_complaint}${_failed}\n"
    "Set one up with tools/setup, name another with -DTHALWEG_PYTHON=…, or build without the device with -DTHALWEG_TORCH=OFF.")
endif()
string(REPLACE "\n" ";" _facts "${_facts}")
foreach(_fact ${_facts})
  string(REGEX MATCH "^([A-Z_]+)=(.*)$" _ "${_fact}")
  set(_torch_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
if(_torch_VERSION VERSION_LESS 2.11 OR NOT _torch_VERSION VERSION_LESS 2.16)
  message(WARNING "torch ${_torch_VERSION} is outside the supported range, 2.11 to 2.15")
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _torch_minor "${_torch_VERSION}")
message(STATUS "torch ${_torch_VERSION} in ${_torch_FOLDER}")

file(GLOB _sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/aten/*.cpp ${CMAKE_SOURCE_DIR}/src/bindings/*.cpp)
if(NOT _sources)
  message(STATUS "no sources of the torch device yet: not built")
  return()
endif()

add_library(thalweg_torch MODULE ${_sources})
set_target_properties(thalweg_torch PROPERTIES
  PREFIX "" OUTPUT_NAME "_C" SUFFIX "${_torch_SUFFIX}"
  SKIP_BUILD_RPATH ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")  # Python loads torch first
target_include_directories(thalweg_torch PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(thalweg_torch SYSTEM PRIVATE
  ${_torch_FOLDER}/include ${_torch_FOLDER}/include/torch/csrc/api/include ${_torch_PYTHON_INCLUDE})
target_compile_definitions(thalweg_torch PRIVATE
  TORCH_EXTENSION_NAME=_C TORCH_API_INCLUDE_EXTENSION_H
  THALWEG_TORCH_VERSION="${_torch_VERSION}" THALWEG_TORCH_MINOR="${_torch_minor}")
target_link_libraries(thalweg_torch PRIVATE
  lazy ${_torch_FOLDER}/lib/libtorch_python.so ${_torch_FOLDER}/lib/libtorch_cpu.so ${_torch_FOLDER}/lib/libc10.so)
target_link_options(thalweg_torch PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed)
# Python's symbols are resolved when it loads the module, so the linker lets undefined ones pass; our own must all be there.
add_custom_command(TARGET thalweg_torch POST_BUILD VERBATIM
  COMMENT "Looking for functions that are declared and used but nowhere defined"
  COMMAND sh -c "! nm --dynamic --undefined-only --demangle '$<TARGET_FILE:thalweg_torch>' | grep thalweg::")

# One translation unit with PyTorch's headers takes 15 to 20 seconds, so they are compiled once. ccache must be told that it may trust such a header.
if(EXISTS ${CMAKE_SOURCE_DIR}/src/aten/torch_headers.h)
  target_precompile_headers(thalweg_torch PRIVATE ${CMAKE_SOURCE_DIR}/src/aten/torch_headers.h)
  if(CCACHE)
    target_compile_options(thalweg_torch PRIVATE -fpch-preprocess)
    set_target_properties(thalweg_torch PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_NOHASHDIR=1;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE}")
  endif()
endif()

# Everything that Python loads.
add_custom_target(thalweg_python DEPENDS thalweg_torch)
install(TARGETS thalweg_torch LIBRARY DESTINATION thalweg COMPONENT python)
if(TARGET thalweg_clang)
  add_dependencies(thalweg_python thalweg_clang)
  install(TARGETS thalweg_clang LIBRARY DESTINATION thalweg COMPONENT python)
endif()

# Programs ask for a distribution named torch_xla by version: the wheel carries that metadata beside its own.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_xla.egg-info/PKG-INFO CONTENT
  "Metadata-Version: 2.1\nName: torch_xla\nVersion: ${_torch_minor}.0\nSummary: The torch_xla interface of Thalweg\n")
install(FILES ${CMAKE_BINARY_DIR}/torch_xla.egg-info/PKG-INFO DESTINATION torch_xla-${_torch_minor}.0.egg-info COMPONENT python)
