// Taking test programs apart.
#include "tools_cli/oracle.h"

#include <unordered_map>

#include "interp/interpreter.h"
#include "ir/builder.h"
#include "support/error.h"

namespace thalweg::tools_cli {
namespace {

using ir::Op;
using ir::OpCode;
using ir::Value;

bool is_check(const Op& op) { return op.code == OpCode::CustomCall && op.attrs.string("call_target_name").starts_with("check."); }

double limit_of(const Op& op, const char* attribute, double fallback) {
  const ir::Attribute* value = op.attrs.find(attribute);
  if (!value) return fallback;
  if (auto* integer = std::get_if<int64_t>(&value->value)) return static_cast<double>(*integer);
  if (auto* real = std::get_if<double>(&value->value)) return *real;
  return fallback;
}

Check rule_of(const Op& op) {
  Check check;
  check.name = op.attrs.string("call_target_name").substr(6);
  if (check.name == "expect_close") {
    check.rule = Rule::Close;
    check.limit = limit_of(op, "max_ulp_difference", 3);
  } else if (check.name == "expect_almost_eq") {
    check.rule = Rule::AlmostEqual;
    check.limit = limit_of(op, "tolerance", 1e-3);
  } else {
    THALWEG_CHECK(check.name == "expect_eq", Unsupported, "unknown check: check.", check.name);
  }
  return check;
}

class Surgeon {
 public:
  Surgeon(ir::Module& module, bool keep_constants) : module_(module), main_(module.main()), keep_constants_(keep_constants) {}

  void run(TestProgram& program) {
    evaluate_calls();
    std::vector<Value*> results;
    const auto result_number = [&](Value* value) {
      for (size_t i = 0; i < results.size(); ++i)
        if (results[i] == value) return i;
      results.push_back(value);
      return results.size() - 1;
    };
    for (const auto& op : main_.body.ops) {
      if (!is_check(*op)) continue;
      Check check = rule_of(*op);
      check.result = result_number(op->operands[0]);
      if (known_.contains(op->operands[1]))
        check.expected = known_.at(op->operands[1]);
      else
        check.expected_result = result_number(op->operands[1]);
      program.checks.push_back(std::move(check));
    }
    if (program.checks.empty()) return;
    std::erase_if(main_.body.ops, [](const auto& op) { return is_check(*op); });
    main_.body.ops.back()->operands = results;
    if (!keep_constants_) parameters(program);
    main_.result_attrs.clear();
    main_.arg_attrs.clear();
  }

 private:
  void evaluate_calls() {
    for (const auto& op : main_.body.ops) {
      if (op->code != OpCode::Call || !op->operands.empty()) continue;
      const ir::Function* callee = module_.find(op->attrs.string("callee"));
      std::vector<ir::Literal> values = interp::run(module_, *callee, {});
      for (size_t i = 0; i < values.size(); ++i) known_[op->results[i].get()] = std::make_shared<const ir::Literal>(std::move(values[i]));
    }
  }

  // Known values that ops still use become parameters; the calls that gave them go.
  void parameters(TestProgram& program) {
    std::unordered_map<const Value*, Value*> replaced;
    replace_uses(main_.body, [&](Value* value) {
      const auto found = known_.find(value);
      if (found == known_.end()) return value;
      Value*& parameter = replaced[value];
      if (!parameter) {
        parameter = main_.body.add_arg(value->type);
        program.inputs.push_back(*found->second);
      }
      return parameter;
    });
    std::erase_if(main_.body.ops, [](const auto& op) { return op->code == OpCode::Call && op->operands.empty(); });
  }

  template <class Replace>
  void replace_uses(ir::Block& block, const Replace& replace) {
    for (const auto& op : block.ops) {
      for (Value*& operand : op->operands) operand = replace(operand);
      for (const auto& region : op->regions) replace_uses(*region, replace);
    }
  }

  ir::Module& module_;
  ir::Function& main_;
  bool keep_constants_;
  std::unordered_map<const Value*, ir::LiteralPtr> known_;
};

}  // namespace

TestProgram take_apart(std::unique_ptr<ir::Module> module, bool keep_constants) {
  TestProgram program;
  program.module = std::move(module);
  Surgeon(*program.module, keep_constants).run(program);
  return program;
}

}  // namespace thalweg::tools_cli
