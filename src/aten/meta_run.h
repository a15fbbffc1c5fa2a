// The results' dtype and shape of one call, from PyTorch's meta kernels or a rule of ours where it has none.
#pragma once

#include "aten/meta_memo.h"
#include "aten/trace_plan.h"

namespace thalweg::aten {

// Runs the call whose arguments start at `frame` on meta tensors. Errors of the meta kernel are PyTorch's own messages and propagate; an operation without
// meta kernel gives `untraceable`. For in-place calls the results are those of the written arguments after the call.
ResultSpecs run_on_meta(const Plan& plan, const c10::IValue* frame);

// Rules for operations that have no meta kernel. Null when there is none: the meta kernel is asked.
using ShapeRule = ResultSpecs (*)(const c10::IValue* arguments);
ShapeRule find_shape_rule(const std::string& row);

}  // namespace thalweg::aten
