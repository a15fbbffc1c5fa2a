// Collectives on simulated devices against their definitions, computed here by loops over all devices' inputs.
#include <gtest/gtest.h>

#include <random>

#include "interp/interpreter.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "support/error.h"

namespace thalweg::interp {
namespace {

using ir::DType;
using ir::Literal;
using Lists = std::vector<std::vector<Literal>>;

Lists random_inputs(int64_t devices, const ir::Type& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  Lists inputs;
  for (int64_t d = 0; d < devices; ++d) {
    Literal literal(type);
    for (int64_t i = 0; i < type.size(); ++i) literal.set<int32_t>(i, static_cast<int32_t>(random() % 1000));
    inputs.push_back({literal});
  }
  return inputs;
}

Lists run_all(const std::string& op, const ir::Type& in, const ir::Type& out, const Lists& inputs, int64_t replicas, int64_t partitions) {
  const auto module = ir::parse("func.func @main(%a: " + to_string(in) + ") -> " + to_string(out) + " {\n%r = " + op + " : (" + to_string(in) + ") -> " +
                                    to_string(out) + "\nreturn %r : " + to_string(out) + "\n}",
                                "test.mlir");
  ir::verify(*module);
  return run_parallel(*module, module->main(), inputs, replicas, partitions);
}

int32_t at(const Literal& literal, int64_t i) { return literal.get<int32_t>(i); }

const std::string kSum = "({ ^bb0(%x: tensor<i32>, %y: tensor<i32>): %s = stablehlo.add %x, %y : tensor<i32> stablehlo.return %s : tensor<i32> })";
const ir::Type kVector = ir::tensor(DType::S32, {6});

TEST(Devices, AllReduceInEveryMode) {
  const Lists in = random_inputs(6, kVector, 1);  // 3 replicas of 2 partitions
  const auto sums = [&](const std::string& attrs) { return run_all("\"stablehlo.all_reduce\"(%a) <{" + attrs + "}> " + kSum, kVector, kVector, in, 3, 2); };
  const auto expect = [&](const Lists& got, const std::vector<std::vector<int64_t>>& groups) {
    for (const auto& group : groups)
      for (int64_t d : group)
        for (int64_t i = 0; i < 6; ++i) {
          int32_t wanted = 0;
          for (int64_t other : group) wanted += at(in[static_cast<size_t>(other)][0], i);
          EXPECT_EQ(at(got[static_cast<size_t>(d)][0], i), wanted);
        }
  };
  expect(sums("replica_groups = dense<[[0, 2], [1, -1]]> : tensor<2x2xi64>"), {{0, 4}, {1, 5}, {2}, {3}});
  expect(sums("replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"), {{0, 1, 2, 3, 4, 5}});
  expect(sums("replica_groups = dense<[[0, 5, 1], [2, 3, 4]]> : tensor<2x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, "
              "use_global_device_ids"),
         {{0, 5, 1}, {2, 3, 4}});
}

TEST(Devices, GatherScatterAndExchange) {
  const Lists in = random_inputs(2, kVector, 2);
  const std::string groups = "replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>";
  const Lists gathered = run_all("\"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, " + groups + "}>", kVector, ir::tensor(DType::S32, {12}), in, 2, 1);
  const Lists scattered =
      run_all("\"stablehlo.reduce_scatter\"(%a) <{scatter_dimension = 0 : i64, " + groups + "}> " + kSum, kVector, ir::tensor(DType::S32, {3}), in, 2, 1);
  const Lists exchanged =
      run_all("\"stablehlo.all_to_all\"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, " + groups + "}>", kVector, kVector,
              in, 2, 1);
  const Lists sent = run_all("\"stablehlo.collective_broadcast\"(%a) <{" + groups + "}>", kVector, kVector, in, 2, 1);
  const Lists moved = run_all("\"stablehlo.collective_permute\"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>", kVector, kVector, in, 2, 1);
  for (size_t d = 0; d < 2; ++d) {
    const size_t place = 1 - d;  // in the group, which lists device 1 first
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(at(gathered[d][0], i), at(in[1][0], i));
      EXPECT_EQ(at(gathered[d][0], 6 + i), at(in[0][0], i));
      EXPECT_EQ(at(sent[d][0], i), at(in[1][0], i));
      EXPECT_EQ(at(moved[d][0], i), d == 1 ? at(in[0][0], i) : 0);
      EXPECT_EQ(at(exchanged[d][0], i), at(in[i < 3 ? 1 : 0][0], static_cast<int64_t>(3 * place) + i % 3));
    }
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t from = static_cast<int64_t>(3 * place) + i;
      EXPECT_EQ(at(scattered[d][0], i), at(in[0][0], from) + at(in[1][0], from));
    }
  }
}

TEST(Devices, LoopsMeetAgainAndIdsDiffer) {
  const auto module = ir::parse(R"(func.func @main(%a: tensor<i32>) -> (tensor<i32>, tensor<ui32>, tensor<ui32>) {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %o = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%k = %n, %v = %a) : tensor<i32>, tensor<i32>
      cond { %c = stablehlo.compare GT, %k, %z : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %c : tensor<i1> }
      do { %s = "stablehlo.all_reduce"(%v) <{replica_groups = dense<> : tensor<0x0xi64>}> ({ ^bb0(%x: tensor<i32>, %y: tensor<i32>): %t = stablehlo.add %x, %y : tensor<i32> stablehlo.return %t : tensor<i32> }) : (tensor<i32>) -> tensor<i32>
           %d = stablehlo.subtract %k, %o : tensor<i32> stablehlo.return %d, %s : tensor<i32>, tensor<i32> }
    %r = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.partition_id : tensor<ui32>
    return %w#1, %r, %p : tensor<i32>, tensor<ui32>, tensor<ui32>
  })",
                                "test.mlir");
  const Lists in = random_inputs(4, ir::tensor(DType::S32), 3);
  const Lists out = run_parallel(*module, module->main(), in, 4, 1);
  int32_t sum = 0;
  for (const auto& list : in) sum += at(list[0], 0);
  for (size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(at(out[d][0], 0), sum * 256);  // five rounds: the sum, then four times it each
    EXPECT_EQ(to_int(out[d][1], 0), static_cast<int64_t>(d));
    EXPECT_EQ(to_int(out[d][2], 0), 0);
  }
}

TEST(Devices, APartnerThatNeverComesIsAnError) {
  const auto module = ir::parse(R"(func.func @main(%a: tensor<i32>) -> tensor<i32> {
    %r = stablehlo.replica_id : tensor<ui32>
    %i = stablehlo.convert %r : (tensor<ui32>) -> tensor<i32>
    %e = "stablehlo.case"(%i) ({ stablehlo.return %a : tensor<i32> }, {
      %s = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({ ^bb0(%x: tensor<i32>, %y: tensor<i32>): %t = stablehlo.add %x, %y : tensor<i32> stablehlo.return %t : tensor<i32> }) : (tensor<i32>) -> tensor<i32>
      stablehlo.return %s : tensor<i32> }) : (tensor<i32>) -> tensor<i32>
    return %e : tensor<i32>
  })",
                                "test.mlir");
  EXPECT_THROW(run_parallel(*module, module->main(), random_inputs(2, ir::tensor(DType::S32), 4), 2, 1), Error);
}

}  // namespace
}  // namespace thalweg::interp
