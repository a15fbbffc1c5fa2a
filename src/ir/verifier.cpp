// The verifier.
#include "ir/verifier.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.h"
#include "ir/infer.h"
#include "support/error.h"

namespace thalweg::ir {
namespace {

// Types that shape rules do not follow: dynamic sizes, quantized elements, bounds.
bool is_static(const Type& type) {
  if (type.kind == Type::Kind::Opaque || !type.text.empty()) return false;
  return std::none_of(type.dims.begin(), type.dims.end(), [](int64_t d) { return d == kDynamic; }) &&
         std::all_of(type.elements.begin(), type.elements.end(), is_static);
}

class Verifier {
 public:
  explicit Verifier(const Module* module) : module_(module) {}

  void function(const Function& function) {
    require_return(function.body, "@" + function.name);
    block(function.body);
  }

 private:
  [[noreturn]] void fail(const Op& op, const std::string& message) const {
    const std::string where = op.location.file.empty() ? std::string() : op.location.file + ":" + std::to_string(op.location.line) + ": ";
    raise(ErrorKind::Verify, where, message);
  }

  static void require_return(const Block& block, const std::string& where) {
    THALWEG_CHECK(!block.ops.empty() && block.terminator().code == OpCode::Return, Verify, "region without a return at its end: ", where);
  }

  void block(const Block& block) {
    std::vector<const Value*> defined;
    const auto define = [&](const Value* value) {
      visible_.insert(value);
      defined.push_back(value);
    };
    for (const auto& arg : block.args) define(arg.get());
    for (const auto& op : block.ops) {
      if (op->code == OpCode::Return && op != block.ops.back()) fail(*op, "stablehlo.return: stands before the end of its region");
      check(*op);
      for (const auto& result : op->results) define(result.get());
    }
    for (const Value* value : defined) visible_.erase(value);
  }

  void check(const Op& op) {
    const std::string op_name = "stablehlo." + std::string(name(op.code));
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!visible_.contains(op.operands[i])) fail(op, op_name + ": operand " + std::to_string(i) + " is not defined before its use");
    for (const auto& region : op.regions) {
      require_return(*region, op_name);
      block(*region);
    }
    try {
      if (op.code == OpCode::Call) return call(op);
      required_attributes(op);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Internal) throw;
      fail(op, op_name + ": " + error.what());  // a missing or mistyped attribute
    }
    shapes(op, op_name);
  }

  // Attributes that no shape rule reads.
  void required_attributes(const Op& op) const {
    if (op.code == OpCode::CustomCall) op.attrs.string("call_target_name");
    if (op.code != OpCode::Composite) return;
    op.attrs.string("name");
    if (op.attrs.has("decomposition")) require_callee(op, op.attrs.string("decomposition"));
  }

  void shapes(const Op& op, const std::string& op_name) const {
    std::vector<Type> declared;
    for (const auto& result : op.results) declared.push_back(result->type);
    const bool skipped = !std::all_of(declared.begin(), declared.end(), is_static) ||
                         !std::all_of(op.operands.begin(), op.operands.end(), [](const Value* v) { return is_static(v->type); });
    if (skipped) return;
    std::optional<std::vector<Type>> inferred;
    try {
      inferred = infer_types(op.code, op.operands, op.attrs, op.regions, &declared);
    } catch (const Error& error) {
      fail(op, error.what());
    }
    if (!inferred || *inferred == declared) return;
    if (inferred->size() != declared.size())
      fail(op, op_name + ": wrong number of results: " + std::to_string(declared.size()) + ", the op gives: " + std::to_string(inferred->size()));
    for (size_t i = 0; i < declared.size(); ++i)
      if ((*inferred)[i] != declared[i])
        fail(op, op_name + ": result " + std::to_string(i) + " has another type than the op gives: " + to_string(declared[i]) +
                     ", the op gives: " + to_string((*inferred)[i]));
  }

  const Function& require_callee(const Op& op, const std::string& callee) const {
    const Function* function = module_ ? module_->find(callee) : nullptr;
    if (!function) fail(op, "func.call: no such function: @" + callee);
    return *function;
  }

  void call(const Op& op) const {
    const Function& callee = require_callee(op, op.attrs.string("callee"));
    std::vector<Type> results;
    for (const auto& result : op.results) results.push_back(result->type);
    const bool arguments = op.operands.size() == callee.body.args.size() && std::equal(op.operands.begin(), op.operands.end(), callee.body.args.begin(),
                                                                                       [](const Value* v, const auto& arg) { return v->type == arg->type; });
    if (!arguments) fail(op, "func.call: operands do not fit the arguments of @" + callee.name);
    if (results != callee.result_types()) fail(op, "func.call: results do not fit those of @" + callee.name);
  }

  const Module* module_;
  std::unordered_set<const Value*> visible_;
};

void callees_of(const Block& block, std::vector<std::string>& callees) {
  for (const auto& op : block.ops) {
    if (op->code == OpCode::Call) callees.push_back(op->attrs.string("callee"));
    if (op->code == OpCode::Composite && op->attrs.has("decomposition")) callees.push_back(op->attrs.string("decomposition"));
    for (const auto& region : op->regions) callees_of(*region, callees);
  }
}

// Depth-first over calls; a function met again while it is open calls itself.
void require_no_recursion(const Module& module) {
  enum State { Open = 1, Done = 2 };
  std::unordered_map<std::string, int> state;
  struct Frame {
    std::string name;
    std::vector<std::string> callees;
    size_t next = 0;
  };
  const auto open = [&](const std::string& function_name) {
    Frame frame{function_name, {}, 0};
    if (const Function* function = module.find(function_name)) callees_of(function->body, frame.callees);
    state[function_name] = Open;
    return frame;
  };
  for (const auto& function : module.functions) {
    if (state[function->name]) continue;
    std::vector<Frame> stack{open(function->name)};
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.callees.size()) {
        state[top.name] = Done;
        stack.pop_back();
        continue;
      }
      const std::string callee = top.callees[top.next++];
      THALWEG_CHECK(state[callee] != Open, Verify, "func.call: function calls itself: @", callee);
      if (state[callee] != Done) stack.push_back(open(callee));
    }
  }
}

}  // namespace

void verify(const Function& function, const Module* module) { Verifier(module).function(function); }

void verify(const Module& module) {
  for (const auto& function : module.functions) verify(*function, &module);
  require_no_recursion(module);
}

}  // namespace thalweg::ir
