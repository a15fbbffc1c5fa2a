// How the arguments of one overload become the arguments of a row: worked out once from the schemas, walked at each call.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "aten/torch_headers.h"
#include "lazy/row.h"

namespace thalweg::aten {

// What a row's argument is, by its type in the schema. Optional ones may be None on the stack.
enum class Take : uint8_t { kTensor, kTensors, kScalar, kScalars, kInt, kInts, kDouble, kDoubles, kBool, kBools, kString, kNothing };

// One argument of the row.
struct PlanArg {
  Take take = Take::kNothing;
  bool is_static = false;         // a number that is part of the program
  bool takes_any_device = false;  // index tensors may be on the CPU
  int position = -1;              // in the overload's arguments; -1: the overload lacks it
};

// Where results go.
enum class ResultMode : uint8_t { kFresh, kInPlace, kOut };

// One overload that a row serves.
struct Plan {
  Plan(const lazy::Row& row, c10::OperatorHandle op) : row(&row), op(std::move(op)) {}
  const lazy::Row* row;
  c10::OperatorHandle op;
  ResultMode mode = ResultMode::kFresh;
  std::vector<PlanArg> args;      // in the row's schema order
  std::vector<int> written;       // positions of the arguments that hold the results (kInPlace, kOut)
  std::vector<int> also_written;  // positions of tensors that a fresh call writes though the schema does not say so
  bool shape_needs_numbers = false;
  int arguments = 0, returns = 0;
  int generator = -1, device = -1;  // positions
  uint64_t id = 0;
  mutable std::atomic<int64_t> calls{0};
};

// The plans of a row: for the overload that it names and for its in-place and out= relatives. Empty when this PyTorch lacks the overload.
std::vector<std::unique_ptr<Plan>> plans_of(const lazy::Row& row);

}  // namespace thalweg::aten
