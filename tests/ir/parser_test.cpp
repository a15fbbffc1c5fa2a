// Reading and printing text: the given programs, spellings found in the wild, and errors with their places.
#include "ir/parser.h"

#include <gtest/gtest.h>

#include <chrono>

#include "ir/compare.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "support/error.h"
#include "tests/ir/corpus.h"

namespace thalweg::ir {
namespace {

std::unique_ptr<Module> module_of(const std::string& body) { return parse(body, "test.mlir"); }

std::string error_of(const std::string& text) {
  try {
    parse(text, "test.mlir");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse) << error.what();
    return error.what();
  }
  return "no error";
}

// Text of a function with the given ops over %a: tensor<2x3xf32>.
std::string with_ops(const std::string& ops) { return "func.func @main(%a: tensor<2x3xf32>) {\n" + ops + "\nreturn\n}\n"; }

TEST(Parser, RoundTripsEveryGivenProgram) {
  const auto paths = tests::all_programs();
  if (paths.empty()) GTEST_SKIP() << "no programs; set THALWEG_TEST_PROGRAMS to a folder of .mlir files";
  int failures = 0;
  for (const auto& path : paths) {
    try {
      const auto module = parse(tests::read_file(path), path.filename().string());
      verify(*module);
      const std::string text = print(*module);
      const auto again = parse(text, "printed");
      const std::string different = difference(*module, *again);
      if (!different.empty()) ADD_FAILURE() << path << ": " << different;
      failures += !different.empty();
      if (print(*again) != text) ADD_FAILURE() << path << ": printed text changes";
    } catch (const Error& error) {
      ADD_FAILURE() << path << ": " << error.what();
      ++failures;
    }
    if (failures > 10) break;
  }
}

TEST(Parser, ReadsConstantsOfEverySpelling) {
  const auto value = [](const std::string& text) {
    const auto module = module_of(with_ops("%c = stablehlo.constant " + text));
    return *module->main().body.ops[0]->attrs.literal("value");
  };
  EXPECT_EQ(to_double(value("dense<0xFF80> : tensor<bf16>"), 0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(to_double(value("dense<-1.5> : tensor<2x2xf8E5M2>"), 3), -1.5);
  EXPECT_EQ(to_int(value("dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>"), 1), -2);
  EXPECT_EQ(to_int(value("dense<\"0x0100000002000000\"> : tensor<2xi32>"), 1), 2);
  EXPECT_EQ(to_int(value("dense<\"0x05\"> : tensor<3xi1>"), 2), 1);      // packed bits
  EXPECT_EQ(to_int(value("dense<\"0x000001\"> : tensor<3xi1>"), 2), 1);  // a byte each
  EXPECT_TRUE(value("dense<\"0xFF\"> : tensor<8xi1>").splat);
  EXPECT_EQ(value("dense<> : tensor<0x3xf32>").data.size(), 0u);
  const Literal complex = value("dense<[(1.0, -2.0), (0x7F800000, 3.0)]> : tensor<2xcomplex<f32>>");
  EXPECT_EQ(complex.get<float>(1), -2.0f);
  EXPECT_EQ(complex.get<float>(2), std::numeric_limits<float>::infinity());
  EXPECT_EQ(value("dense<18446744073709551615> : tensor<ui64>").get<uint64_t>(0), ~uint64_t{0});
}

TEST(Parser, RoundTripsSpellingsOfTheWild) {
  const char* programs[] = {
      // Names with quotes, escapes and what looks like a path.
      R"(module @"a\"b\00" {
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> attributes {path = @outer::@"in ner"::@leaf, odd = @"\FF\5C"} {
    %0 = func.call @"f::@g\09"(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.custom_call @"t::@\22"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @"f::@g\09"(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
})",
      // Generic forms, old-style properties behind the operands, locations and aliases.
      R"(#loc1 = loc("x"("f.py":1:2))
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x?xf32> {jax.buffer_donor = true, mhlo.sharding = "{replicated}"} loc("a"), %arg1: !stablehlo.token) -> (tensor<2x?xf32> {jax.result_info = ""}) {
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x?xf32> loc(#loc1)
    return %0 : tensor<2x?xf32> loc(#loc1)
  } loc(#loc1)
} loc(#loc1)
#loc2 = loc(unknown))",
      R"(func.func @main(%x: tensor<4x5xf32>, %i: tensor<f32>) -> tensor<4xf32> {
    %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = "stablehlo.reduce"(%x, %i) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %m = stablehlo.maximum %a, %b : tensor<f32> stablehlo.return %m : tensor<f32> }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %2:2 = stablehlo.reduce(%x init: %i), (%x init: %i) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
      reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) { stablehlo.return %d, %c : tensor<f32>, tensor<f32> }
    %3 = stablehlo.add %0, %2#1 {mhlo.note = "a\"b\0A", x.unit} : tensor<4xf32>
    return %3 : tensor<4xf32>
  })",
      R"(func.func private @f(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x4x6xf32>) -> tensor<1x4x4x6xf32> {
    %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [1, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]} : (tensor<1x8x8x4xf32>, tensor<3x3x4x6xf32>) -> tensor<1x4x4x6xf32>
    return %0 : tensor<1x4x4x6xf32>
  })",
      R"(func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xbf16>) -> tensor<2x3x5xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, HIGHEST], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<2x4x5xbf16>) -> tensor<2x3x5xf32>
    return %0 : tensor<2x3x5xf32>
  })",
      R"(func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %0:2 = stablehlo.while(%i = %n, %acc = %x) : tensor<i32>, tensor<f32> attributes {mhlo.trip = 3 : i32}
     cond { %c = stablehlo.constant dense<0> : tensor<i32> %p = stablehlo.compare  GT, %i, %c,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %p : tensor<i1> }
     do { %c = stablehlo.constant dense<1> : tensor<i32> %d = stablehlo.subtract %i, %c : tensor<i32> %e = func.call @g(%acc) : (tensor<f32>) -> tensor<f32> stablehlo.return %d, %e : tensor<i32>, tensor<f32> }
    return %0#0, %0#1 : tensor<i32>, tensor<f32>
  }
  func.func private @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> })",
      R"(func.func @main(%p: tensor<i1>, %x: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2xf32> {
    %0 = "stablehlo.if"(%p) ({ stablehlo.return %x : tensor<2xf32> }, { %n = stablehlo.negate %x : tensor<2xf32> stablehlo.return %n : tensor<2xf32> }) : (tensor<i1>) -> tensor<2xf32>
    %1 = stablehlo.select %p, %0, %x : tensor<i1>, tensor<2xf32>
    %2 = stablehlo.complex %1, %x : tensor<2xcomplex<f32>>
    %3 = stablehlo.real %2 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %4 = stablehlo.tuple %3, %p : tuple<tensor<2xf32>, tensor<i1>>
    %5 = stablehlo.get_tuple_element %4[0] : (tuple<tensor<2xf32>, tensor<i1>>) -> tensor<2xf32>
    %6 = stablehlo.after_all %t, %t : !stablehlo.token
    %7 = stablehlo.replica_id : tensor<ui32>
    %8:2 = stablehlo.optimization_barrier %5, %p : tensor<2xf32>, tensor<i1>
    %9 = stablehlo.reduce_precision %8#0, format = e8m10 : tensor<2xf32>
    %10 = stablehlo.custom_call @target(%9) {backend_config = {a = [1, 2], b = 1.5 : f32, c = dense<[1.0, 2.0]> : tensor<2xf32>}, api_version = 4 : i32, called_computations = [@g], operand_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xf32>) -> tensor<2xf32>
    %11 = stablehlo.composite "chlo.erf" %10 {composite_attributes = {}, decomposition = @g, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
    %12 = chlo.erf %11 : tensor<2xf32> -> tensor<2xf32>
    %13:2 = chlo.top_k(%12, k = 1) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)
    %14 = stablehlo.fft %2, type = FFT, length = [2] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    %15 = stablehlo.slice %x [0:2:2] : (tensor<2xf32>) -> tensor<1xf32>
    %16 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<2xf32>
    return %12 : tensor<2xf32>
  }
  func.func private @g(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> })",
      R"(module { sdy.mesh @mesh = <["x"=2]>
  func.func @main(%q: tensor<4x!quant.uniform<i8:f32, 3.400000e-02:16>>, %s: tensor<1xi32>) -> tensor<?xf32> {
    %0 = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 3.400000e-02:16>>) -> tensor<4xf32>
    %1 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %2 = stablehlo.dynamic_reshape %0, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
    %3 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %m = stablehlo.add %a, %b : tensor<f32> stablehlo.return %m : tensor<f32> }) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<?xf32>
  } })",
  };
  for (const char* text : programs) {
    try {
      const auto module = parse(text, "test.mlir");
      verify(*module);
      const std::string printed = print(*module);
      const auto again = parse(printed, "printed");
      EXPECT_EQ(difference(*module, *again), "") << printed;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << text;
    }
  }
}

TEST(Parser, ErrorsNamePlaceAndExpectation) {
  EXPECT_EQ(error_of(with_ops("%b = stablehlo.adds %a, %a : tensor<2x3xf32>")).rfind("test.mlir:2:1: unknown op: stablehlo.adds", 0), 0u);
  EXPECT_EQ(error_of(with_ops("%b = stablehlo.add %a, %c : tensor<2x3xf32>")).rfind("test.mlir:2:24: value is not defined", 0), 0u);
  const std::pair<std::string, std::string> cases[] = {
      {"%b = stablehlo.add %a, %a : tensor<2x4xf32>", "operand 0 has type tensor<2x3xf32>, expected the given tensor<2x4xf32>"},
      {"%b = stablehlo.add %a, %a : tensor<2x3xf33>", "unknown element type: f33"},
      {"%b = stablehlo.add %a, %a : tensor<2x3", "expected"},
      {"%b = stablehlo.transpose %a, dim = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>", "unknown keyword: dim, expected one of: dims"},
      {"%b = stablehlo.constant dense<[1, 2, 3]> : tensor<2xi32>", "expected"},
      {"%b = stablehlo.constant dense<[[1], [2]]> : tensor<2xi32>", "nested deeper"},
      {"%b = stablehlo.constant dense<\"0x010203\"> : tensor<2xi32>", "3 bytes, expected 8 or 4"},
      {"%b = stablehlo.constant dense<300> : tensor<i8>", "integer does not fit"},
      {"%b = stablehlo.constant dense<0> : tensor<9223372036854775807x2xi8>", "more elements than can be counted"},
      {"%b = stablehlo.constant dense<[1.0, 2.0", "never closed"},
      {"%b:2 = stablehlo.add %a, %a : tensor<2x3xf32>", "fewer results than names"},
      {"%a = stablehlo.add %a, %a : tensor<2x3xf32>", "defined twice"},
      {"%b = stablehlo.add %a, %a {x = #stablehlo<} : tensor<2x3xf32>", "expected"},
      {"%b = stablehlo.scatter %a : tensor<2x3xf32>", "no pretty form"},
      {"%b = \"stablehlo.sort\"(%a) ({", "expected"},
      {"%b = stablehlo.add %a#1, %a : tensor<2x3xf32>", "no such result"},
  };
  for (const auto& [ops, part] : cases) {
    const std::string message = error_of(with_ops(ops));
    EXPECT_NE(message.find(part), std::string::npos) << ops << "\n" << message;
    EXPECT_EQ(message.rfind("test.mlir:", 0), 0u) << message;
  }
}

TEST(Parser, DeepNestingIsAnError) {
  std::string regions;
  for (int i = 0; i < 100000; ++i) regions += "%x" + std::to_string(i) + " = \"stablehlo.if\"(%a) ({ ";
  EXPECT_NE(error_of(with_ops(regions)).find("nested too deeply"), std::string::npos);
  for (const char open : {'[', '{'})
    EXPECT_NE(error_of(with_ops("stablehlo.custom_call @x() {a = " + std::string(100000, open))).find(open == '[' ? "nested too deeply" : "found"),
              std::string::npos);
  std::string tuples;
  for (int i = 0; i < 100000; ++i) tuples += "tuple<";
  EXPECT_NE(error_of(with_ops("%b = stablehlo.tuple %a : " + tuples)).find("nested too deeply"), std::string::npos);
}

TEST(Parser, ReadsLargeConstantsFast) {
  // Far below what any machine does, so that a slow path shows and a busy machine passes.
  constexpr double kLeast = 20e6;
  constexpr int64_t kElements = 2'000'000;
  std::string hex(static_cast<size_t>(kElements) * 8, 'A'), list;
  for (int64_t i = 0; i < kElements; ++i) list += (i ? ", " : "") + std::to_string(static_cast<double>(i) * 1.37);
  for (const std::string& body : {"\"0x" + hex + "\"", "[" + list + "]"}) {
    const std::string text = with_ops("%c = stablehlo.constant dense<" + body + "> : tensor<" + std::to_string(kElements) + "xf32>");
    const auto start = std::chrono::steady_clock::now();
    const auto module = parse(text);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    RecordProperty("megabytes_per_second", std::to_string(static_cast<double>(text.size()) / seconds / 1e6));
    EXPECT_GT(static_cast<double>(text.size()) / seconds, kLeast);
    std::cout << static_cast<double>(text.size()) / seconds / 1e6 << " MB/s\n";
  }
}

}  // namespace
}  // namespace thalweg::ir
