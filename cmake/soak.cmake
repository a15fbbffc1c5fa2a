# The soak and the mutation suite: the runtime built once more with switches for its ordering rules.
if(NOT THALWEG_TESTS)
  return()
endif()
file(GLOB _sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runtime/*.cpp ${CMAKE_SOURCE_DIR}/src/runtime/sim/*.cpp)
add_library(runtime_mutable STATIC ${_sources} tests/soak/program.cpp tests/soak/foreign_rules.cpp)
target_compile_definitions(runtime_mutable PUBLIC THALWEG_MUTATIONS)
target_include_directories(runtime_mutable PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_link_libraries(runtime_mutable PUBLIC support Threads::Threads)

add_executable(soak tests/soak/main.cpp)
target_link_libraries(soak PRIVATE runtime_mutable)

add_executable(mutation_suite tests/soak/mutation_main.cpp tests/soak/soak_test.cpp tests/runtime/sim/adversarial_test.cpp tests/runtime/sim/explorer_test.cpp)
target_link_libraries(mutation_suite PRIVATE runtime_mutable GTest::gtest)
add_test(NAME mutation_suite COMMAND mutation_suite)
set_tests_properties(mutation_suite PROPERTIES TIMEOUT 1200)
add_test(NAME soak COMMAND soak --programs 10000)
set_tests_properties(soak PROPERTIES TIMEOUT 600)

add_executable(runtime_bench EXCLUDE_FROM_ALL bench/runtime_bench.cpp)
target_link_libraries(runtime_bench PRIVATE runtime_cpu)
