# Programs for machines with GPUs; everything builds without CUDA. See tools/gpu_test.
add_executable(seed_race EXCLUDE_FROM_ALL bench/seed_race.cpp)
target_include_directories(seed_race PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(seed_race PRIVATE libs_cuda)

add_executable(cuda_memory_bench EXCLUDE_FROM_ALL bench/cuda_memory_bench.cpp)
target_include_directories(cuda_memory_bench PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(cuda_memory_bench PRIVATE runtime_cuda)

# What tests/python/gpu calls: our memory beside PyTorch's, without the torch device. Needs the headers of THALWEG_PYTHON's torch.
if(THALWEG_GPU_PYTHON)
  execute_process(COMMAND ${THALWEG_GPU_PYTHON} -c "import torch, pathlib; print(pathlib.Path(torch.__file__).parent / 'include')"
    OUTPUT_VARIABLE _torch_include OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  add_library(budget_library SHARED EXCLUDE_FROM_ALL tests/python/gpu/budget_library.cpp src/aten/memory_budget.cpp)
  target_include_directories(budget_library SYSTEM PRIVATE ${_torch_include})
  target_link_libraries(budget_library PRIVATE runtime_cuda)
endif()

# The CUDA runtime over a driver that only pretends, in a process of its own.
if(THALWEG_TESTS)
  file(GLOB _failure_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/runtime/cuda_failures/*.cpp)
  add_executable(cuda_failures_test ${_failure_tests})
  target_include_directories(cuda_failures_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(cuda_failures_test PRIVATE runtime_cuda GTest::gtest_main)
  gtest_discover_tests(cuda_failures_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)

  # Programs for GPUs over the same pretended driver.
  add_executable(exec_cuda_test tests/exec/cuda/cuda_program_test.cpp tests/runtime/cuda_failures/pretended_driver.cpp)
  target_include_directories(exec_cuda_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(exec_cuda_test PRIVATE exec GTest::gtest_main)
  gtest_discover_tests(exec_cuda_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()

# Kernels of nests against the interpreter: on a GPU, and without one by running their text on the CPU.
if(THALWEG_TESTS)
  file(GLOB _nest_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/codegen/cuda/nests/*.cpp)
  add_executable(codegen_cuda_nests_test ${_nest_tests})
  target_include_directories(codegen_cuda_nests_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(codegen_cuda_nests_test PRIVATE codegen_cuda codegen_cpu interp runtime_cuda GTest::gtest_main)
  gtest_discover_tests(codegen_cuda_nests_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endif()

add_executable(cuda_kernels_bench EXCLUDE_FROM_ALL bench/cuda_kernels_bench.cpp)
target_include_directories(cuda_kernels_bench PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(cuda_kernels_bench PRIVATE codegen_cuda runtime_cuda)

# Programs with calls of vendors' libraries, on a GPU; without one, what is made of them.
if(THALWEG_TESTS)
  add_executable(compiler_cuda_test tests/compiler/cuda/cudnn_calls_test.cpp)
  target_include_directories(compiler_cuda_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(compiler_cuda_test PRIVATE compiler GTest::gtest_main)
  gtest_discover_tests(compiler_cuda_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()

# Whole programs put together for a pretended GPU, their kernels run by the emulator.
if(THALWEG_TESTS AND TARGET thalweg_clang)
  add_executable(compiler_emulated_test tests/compiler/cuda/emulated/assembly_test.cpp tests/runtime/cuda_failures/pretended_driver.cpp)
  target_include_directories(compiler_emulated_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(compiler_emulated_test PRIVATE compiler GTest::gtest_main)
  gtest_discover_tests(compiler_emulated_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endif()

add_executable(cudnn_bench EXCLUDE_FROM_ALL bench/cudnn_bench.cpp)
target_include_directories(cudnn_bench PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(cudnn_bench PRIVATE libs_cuda)

# What is said of a cuDNN that is too old.
if(THALWEG_TESTS)
  add_library(old_cudnn MODULE tests/libs/cuda/old/cudnn.cpp)
  target_include_directories(old_cudnn PRIVATE ${CMAKE_SOURCE_DIR}/src)
  set_target_properties(old_cudnn PROPERTIES CXX_VISIBILITY_PRESET default)
  add_dependencies(libs_cuda_test old_cudnn)
  target_compile_definitions(libs_cuda_test PRIVATE THALWEG_OLD_CUDNN="$<TARGET_FILE:old_cudnn>")
endif()
