// Ops, functions and modules as text.
#include "ir/printer.h"

#include <algorithm>
#include <unordered_map>

#include "ir/dimension_numbers.h"
#include "ir/op_forms.h"
#include "ir/print_attributes.h"

namespace thalweg::ir {
namespace {

std::string types_text(const std::vector<Type>& types) {
  std::string out;
  for (size_t i = 0; i < types.size(); ++i) out += (i ? ", " : "") + to_string(types[i]);
  return out;
}

std::vector<Type> operand_types(const Op& op) {
  std::vector<Type> types;
  for (const Value* value : op.operands) types.push_back(value->type);
  return types;
}

std::vector<Type> result_types(const Op& op) {
  std::vector<Type> types;
  for (const auto& value : op.results) types.push_back(value->type);
  return types;
}

std::string function_type(const Op& op) {
  const std::vector<Type> results = result_types(op);
  return "(" + types_text(operand_types(op)) + ") -> " + (results.size() == 1 ? to_string(results[0]) : "(" + types_text(results) + ")");
}

bool all_equal(const Op& op) {
  if (op.results.size() != 1) return false;
  return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* v) { return v->type == op.results[0]->type; });
}

// The op of a reduce's region when `applies` says all of it.
const Op* applied_op(const Op& reduce) {
  if (reduce.operands.size() != 2 || reduce.regions.size() != 1) return nullptr;
  const Block& block = *reduce.regions[0];
  if (block.ops.size() != 2 || block.args.size() != 2) return nullptr;
  const Op& op = *block.ops[0];
  switch (op.code) {
    case OpCode::Add:
    case OpCode::Multiply:
    case OpCode::Maximum:
    case OpCode::Minimum:
    case OpCode::And:
    case OpCode::Or:
    case OpCode::Xor:
      break;
    default:
      return nullptr;
  }
  const bool plain = op.attrs.empty() && op.operands[0] == block.args[0].get() && op.operands[1] == block.args[1].get() && block.ops[1]->operands.size() == 1 &&
                     block.ops[1]->operands[0] == op.result() && block.args[0]->type == reduce.operands[1]->type &&
                     block.args[1]->type == reduce.operands[1]->type && op.result()->type == block.args[0]->type;
  return plain ? &op : nullptr;
}

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void module(const Module& module) {
    out_ += "module";
    if (!module.name.empty()) out_ += " " + symbol_text(module.name);
    if (!module.attrs.empty()) out_ += " attributes " + dictionary_text(module.attrs);
    out_ += " {\n";
    ++indent_;
    for (const std::string& text : module.extra_ops) line(text);
    for (const auto& f : module.functions) function(*f);
    --indent_;
    out_ += "}\n";
  }

  void function(const Function& f) {
    names_.clear();
    next_value_ = next_arg_ = 0;
    pad();
    out_ += std::string("func.func ") + (f.is_public ? "public " : "private ") + symbol_text(f.name) + "(";
    for (size_t i = 0; i < f.body.args.size(); ++i) {
      out_ += (i ? ", " : "") + argument(*f.body.args[i]);
      if (!f.arg_attrs.empty() && !f.arg_attrs[i].empty()) out_ += " " + dictionary_text(f.arg_attrs[i]);
    }
    out_ += ")";
    const std::vector<Type> results = f.result_types();
    if (!results.empty()) {
      out_ += " -> (";
      for (size_t i = 0; i < results.size(); ++i) {
        out_ += (i ? ", " : "") + to_string(results[i]);
        if (!f.result_attrs.empty() && !f.result_attrs[i].empty()) out_ += " " + dictionary_text(f.result_attrs[i]);
      }
      out_ += ")";
    }
    if (!f.attrs.empty()) out_ += " attributes " + dictionary_text(f.attrs);
    out_ += " ";
    depth_ = 0;
    body(f.body);
    out_ += "\n";
  }

  void op(const Op& op) {
    pad();
    if (!op.results.empty()) {
      const std::string name = "%" + std::to_string(next_value_++);
      for (size_t i = 0; i < op.results.size(); ++i) names_[op.results[i].get()] = op.results.size() == 1 ? name : name + "#" + std::to_string(i);
      out_ += name + (op.results.size() == 1 ? "" : ":" + std::to_string(op.results.size())) + " = ";
    }
    expression(op);
    out_ += '\n';
  }

 private:
  void pad() { out_.append(2 * static_cast<size_t>(indent_), ' '); }
  void line(const std::string& text) {
    pad();
    out_ += text + "\n";
  }

  std::string use(const Value* value) const {
    const auto found = names_.find(value);
    return found == names_.end() ? "%?" : found->second;
  }

  std::string uses(const Op& op, size_t begin = 0) const {
    std::string out;
    for (size_t i = begin; i < op.operands.size(); ++i) out += (i > begin ? ", " : "") + use(op.operands[i]);
    return out;
  }

  std::string argument(const Value& value) {
    const std::string name = "%arg" + std::to_string(next_arg_++);
    names_[&value] = name;
    return name + ": " + to_string(value.type);
  }

  // `{`, ops, `}`.
  void body(const Block& block, const std::string& header = {}) {
    out_ += "{\n";
    if (!header.empty()) line(header);
    ++indent_;
    ++depth_;
    for (const auto& inner : block.ops) op(*inner);
    --depth_;
    --indent_;
    pad();
    out_ += "}";
  }

  void region(const Block& block) {
    std::string header;
    for (const auto& arg : block.args) header += (header.empty() ? "^bb0(" : ", ") + argument(*arg);
    body(block, header.empty() ? header : header + "):");
  }

  void attributes(const Op& op, const std::vector<std::string_view>& without = {}) {
    const std::string text = dictionary_text(op.attrs, without);
    if (!text.empty()) out_ += " " + text;
  }

  void expression(const Op& op) {
    switch (op.code) {
      case OpCode::Constant:
        return constant(op);
      case OpCode::Compare:
        return compare(op);
      case OpCode::Slice:
        return slice(op);
      case OpCode::DotGeneral:
        return dot_general(op);
      case OpCode::Convolution:
        return convolution(op);
      case OpCode::Reduce:
        return reduce(op);
      case OpCode::While:
        return while_loop(op);
      case OpCode::Call:
        return call(op);
      case OpCode::CustomCall:
        return custom_call(op);
      case OpCode::Composite:
        return composite(op);
      case OpCode::GetTupleElement:
        return get_tuple_element(op);
      case OpCode::ReducePrecision:
        return reduce_precision(op);
      case OpCode::Return:
        return returns(op);
      case OpCode::Erf:
      case OpCode::Erfc:
        out_ += std::string(chlo_name(op.code)) + " " + uses(op);
        attributes(op);
        out_ += " : " + types_text(operand_types(op)) + " -> " + types_text(result_types(op));
        return;
      default:
        break;
    }
    if (has_keyword_form(op.code) && op.regions.empty() &&
        (op.results.size() == 1 || op.code == OpCode::RngBitGenerator || op.code == OpCode::OptimizationBarrier) && has_all_keywords(op))
      keyword_form(op);
    else
      generic(op);
  }

  static bool has_all_keywords(const Op& op) {
    for (const Keyword& keyword : keywords(op.code)) {
      const Attribute* value = op.attrs.find(keyword.attribute);
      if (!value && keyword.kind != KeywordKind::Enums) return false;
      if (value && keyword.kind == KeywordKind::Ints && (!std::holds_alternative<Dims>(value->value) || !value->type.empty())) return false;
    }
    return true;
  }

  void generic(const Op& op) {
    std::vector<std::string_view> own, discardable;
    for (const auto& [key, value] : op.attrs) (key.find('.') == std::string::npos ? own : discardable).push_back(key);
    out_ += "\"stablehlo." + std::string(name(op.code)) + "\"(" + uses(op) + ")";
    const std::string properties = dictionary_text(op.attrs, discardable);
    if (!properties.empty()) out_ += " <" + properties + ">";
    if (!op.regions.empty()) {
      out_ += " (";
      for (size_t i = 0; i < op.regions.size(); ++i) {
        if (i) out_ += ", ";
        region(*op.regions[i]);
      }
      out_ += ")";
    }
    attributes(op, own);
    out_ += " : " + function_type(op);
  }

  static std::string keyword_text(const Keyword& keyword, const Attribute& value, const Attributes& attrs) {
    switch (keyword.kind) {
      case KeywordKind::Ints:
        return list_text(attrs.ints(keyword.attribute));
      case KeywordKind::Integer:
        return std::to_string(attrs.integer(keyword.attribute));
      case KeywordKind::Boolean:
        return attrs.boolean(keyword.attribute, false) ? "true" : "false";
      case KeywordKind::String:
        return quoted(attrs.string(keyword.attribute));
      case KeywordKind::Enum:
        return attrs.string(keyword.attribute);
      case KeywordKind::Enums:
        return words(value);
    }
    return {};
  }

  static std::string words(const Attribute& value) {
    std::string out = "[";
    if (auto* list = std::get_if<std::shared_ptr<const AttributeList>>(&value.value))
      for (const Attribute& item : **list) out += (out.size() > 1 ? ", " : "") + std::get<EnumWord>(item.value).word;
    return out + "]";
  }

  void keyword_form(const Op& op) {
    out_ += "stablehlo." + std::string(name(op.code));
    if (op.code == OpCode::OptimizationBarrier && op.operands.empty()) {
      attributes(op);
      out_ += " ()";
      return;
    }
    std::string parts = uses(op);
    std::vector<std::string_view> printed;
    for (const Keyword& keyword : keywords(op.code)) {
      const Attribute* value = op.attrs.find(keyword.attribute);
      if (!value) continue;
      parts += (parts.empty() ? "" : ", ") + std::string(keyword.text) + " = " + keyword_text(keyword, *value, op.attrs);
      printed.push_back(keyword.attribute);
    }
    if (!parts.empty()) out_ += " " + parts;
    attributes(op, printed);
    out_ += " : " + short_types(op);
  }

  // Forms in which one type may stand for operands and result; StableHLO's own parser wants a function type in the others even when all types are equal.
  static bool has_one_type(OpCode code) {
    switch (code) {
      case OpCode::ReducePrecision:
      case OpCode::Clamp:
      case OpCode::Iota:
      case OpCode::Reverse:
      case OpCode::Cholesky:
      case OpCode::AfterAll:
      case OpCode::CreateToken:
      case OpCode::PartitionId:
      case OpCode::ReplicaId:
        return true;
      default:
        return form(code) == Form::U || form(code) == Form::B;
    }
  }

  // Types as far as the pretty form needs them.
  static std::string short_types(const Op& op) {
    switch (op.code) {
      case OpCode::OptimizationBarrier:
        return types_text(result_types(op));
      case OpCode::Tuple:
        return types_text(result_types(op));
      case OpCode::Select:
        if (op.operands[1]->type == op.results[0]->type && op.operands[2]->type == op.results[0]->type)
          return to_string(op.operands[0]->type) + ", " + to_string(op.results[0]->type);
        break;
      case OpCode::Complex: {
        Type part = op.results[0]->type;
        part.dtype = real_dtype(part.dtype);
        if (op.operands[0]->type == part && op.operands[1]->type == part) return to_string(op.results[0]->type);
        break;
      }
      default:
        if (all_equal(op) && has_one_type(op.code)) return to_string(op.results[0]->type);
        break;
    }
    return function_type(op);
  }

  void constant(const Op& op) {
    const Attribute& value = *op.attrs.find("value");
    const LiteralPtr* literal = std::get_if<LiteralPtr>(&value.value);
    if (literal && (*literal)->type == op.results[0]->type) {
      out_ += "stablehlo.constant";
      attributes(op, {"value"});
      out_ += " " + print(**literal);
    } else {
      out_ += "stablehlo.constant() <{value = " + print(value) + "}>";
      attributes(op, {"value"});
      out_ += " : () -> " + to_string(op.results[0]->type);
    }
  }

  void compare(const Op& op) {
    out_ += "stablehlo.compare " + op.attrs.string("comparison_direction") + ", " + uses(op);
    if (op.attrs.has("compare_type")) out_ += ", " + op.attrs.string("compare_type");
    attributes(op, {"comparison_direction", "compare_type"});
    out_ += " : " + function_type(op);
  }

  void slice(const Op& op) {
    const Dims &start = op.attrs.ints("start_indices"), &limit = op.attrs.ints("limit_indices"), &stride = op.attrs.ints("strides");
    out_ += "stablehlo.slice " + uses(op) + " [";
    for (size_t i = 0; i < start.size(); ++i) {
      out_ += (i ? ", " : "") + std::to_string(start[i]) + ":" + std::to_string(limit[i]);
      if (stride[i] != 1) out_ += ":" + std::to_string(stride[i]);
    }
    out_ += "]";
    attributes(op, {"start_indices", "limit_indices", "strides"});
    out_ += " : " + function_type(op);
  }

  void dot_general(const Op& op) {
    const DotDims d = dot_dims(op.attrs);
    out_ += "stablehlo.dot_general " + uses(op);
    if (!d.lhs_batch.empty()) out_ += ", batching_dims = " + list_text(d.lhs_batch) + " x " + list_text(d.rhs_batch);
    out_ += ", contracting_dims = " + list_text(d.lhs_contract) + " x " + list_text(d.rhs_contract);
    if (const Attribute* precision = op.attrs.find("precision_config")) out_ += ", precision = " + words(*precision);
    if (const Attribute* algorithm = op.attrs.find("algorithm")) {
      const std::string text = print(*algorithm);
      out_ += ", algorithm = " + text.substr(std::min(text.find('<'), text.size()));
    }
    attributes(op, {"dot_dimension_numbers", "precision_config", "algorithm"});
    out_ += " : " + function_type(op);
  }

  void convolution(const Op& op) {
    std::string window;
    std::vector<std::string_view> printed{"dimension_numbers"};
    const auto add = [&](const char* key, std::string_view attribute, const std::string& text) {
      window += (window.empty() ? "" : ", ") + std::string(key) + " = " + text;
      printed.push_back(attribute);
    };
    const ConvDims d = conv_dims(op.attrs);
    if (op.attrs.has("window_strides")) add("stride", "window_strides", list_text(d.stride));
    if (op.attrs.has("padding")) {
      std::string pad = "[";
      for (size_t i = 0; i < d.pad_low.size(); ++i) pad += (i ? ", " : "") + list_text({d.pad_low[i], d.pad_high[i]});
      add("pad", "padding", pad + "]");
    }
    if (op.attrs.has("lhs_dilation")) add("lhs_dilate", "lhs_dilation", list_text(d.lhs_dilation));
    if (op.attrs.has("rhs_dilation")) add("rhs_dilate", "rhs_dilation", list_text(d.rhs_dilation));
    if (!d.reversal.empty()) {
      std::string flags = "[";
      for (size_t i = 0; i < d.reversal.size(); ++i) flags += std::string(i ? ", " : "") + (d.reversal[i] ? "true" : "false");
      add("reverse", "window_reversal", flags + "]");
    }
    out_ += "stablehlo.convolution(" + uses(op) + ") dim_numbers = " + convolution_text(op.attrs.dict("dimension_numbers")) + ", window = {" + window + "}";
    attributes(op, printed);
    out_ += " : " + function_type(op);
  }

  void reduce(const Op& op) {
    const size_t n = op.operands.size() / 2;
    const Op* applied = applied_op(op);
    out_ += "stablehlo.reduce";
    for (size_t i = 0; i < n; ++i) out_ += (i ? ", (" : "(") + use(op.operands[i]) + " init: " + use(op.operands[n + i]) + ")";
    if (applied) out_ += " applies stablehlo." + std::string(name(applied->code));
    out_ += " across dimensions = " + list_text(op.attrs.ints("dimensions"));
    attributes(op, {"dimensions"});
    out_ += " : " + function_type(op);
    if (applied) return;
    out_ += " reducer";
    const Block& block = *op.regions[0];
    for (size_t i = 0; i < n; ++i) out_ += "(" + argument(*block.args[i]) + ", " + argument(*block.args[n + i]) + ") ";
    body(block);
  }

  void while_loop(const Op& op) {
    out_ += "stablehlo.while(";
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const std::string arg = "%arg" + std::to_string(next_arg_++);
      for (const auto& block : op.regions) names_[block->args[i].get()] = arg;
      out_ += (i ? ", " : "") + arg + " = " + use(op.operands[i]);
    }
    out_ += ")";
    if (!op.operands.empty()) out_ += " : " + types_text(result_types(op));
    if (!op.attrs.empty()) out_ += " attributes " + dictionary_text(op.attrs);
    out_ += " cond ";
    body(*op.regions[0]);
    out_ += " do ";
    body(*op.regions[1]);
  }

  void call(const Op& op) {
    out_ += "func.call " + symbol_text(op.attrs.string("callee")) + "(" + uses(op) + ")";
    attributes(op, {"callee"});
    out_ += " : " + function_type(op);
  }

  void custom_call(const Op& op) {
    const std::string& target = op.attrs.string("call_target_name");
    if (target == "sdy.sharding_constraint" && op.attrs.has("sharding")) {
      out_ += target + " " + uses(op) + " " + print(*op.attrs.find("sharding"));
      attributes(op, {"call_target_name", "sharding"});
      out_ += " : " + types_text(result_types(op));
      return;
    }
    out_ += "stablehlo.custom_call " + symbol_text(target) + "(" + uses(op) + ")";
    attributes(op, {"call_target_name"});
    out_ += " : " + function_type(op);
  }

  void composite(const Op& op) {
    const std::string& composite_name = op.attrs.string("name");
    if (has_chlo_form(op, composite_name)) return chlo(op, composite_name);
    out_ += "stablehlo.composite " + quoted(composite_name) + (op.operands.empty() ? "" : " ") + uses(op);
    attributes(op, {"name"});
    out_ += " : " + function_type(op);
  }

  // What the parser makes of one of CHLO's own ops.
  static bool has_chlo_form(const Op& op, const std::string& composite_name) {
    const bool named =
        composite_name.starts_with("chlo.") && !parse_chlo(composite_name) && composite_name.size() > 5 &&
        std::all_of(composite_name.begin() + 5, composite_name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
    const Attribute* options = op.attrs.find("composite_attributes");
    return named && !op.operands.empty() && !op.results.empty() && op.attrs.size() == 2 && options &&
           std::holds_alternative<std::shared_ptr<const Attributes>>(options->value) && options->type.empty();
  }

  // CHLO's own op: operands and their types, then the result types.
  void chlo(const Op& op, const std::string& composite_name) {
    static const Attributes none;
    const Attributes& options = op.attrs.has("composite_attributes") ? op.attrs.dict("composite_attributes") : none;
    const std::vector<Type> results = result_types(op);
    if (composite_name == "chlo.top_k") {
      out_ += "chlo.top_k(" + uses(op);
      for (const auto& [key, value] : options) {
        const bool bare = std::holds_alternative<int64_t>(value.value) && (value.type.empty() || value.type == "i64");
        out_ += ", " + key + " = " + (bare ? std::to_string(options.integer(key)) : print(value));
      }
      out_ += ")";
    } else {
      out_ += composite_name + " " + uses(op);
      const std::string text = dictionary_text(options);
      if (!text.empty()) out_ += " " + text;
    }
    out_ += " : " + types_text(operand_types(op)) + " -> " + (results.size() == 1 ? to_string(results[0]) : "(" + types_text(results) + ")");
  }

  void get_tuple_element(const Op& op) {
    out_ += "stablehlo.get_tuple_element " + uses(op) + "[" + std::to_string(op.attrs.integer("index")) + "]";
    attributes(op, {"index"});
    out_ += " : " + function_type(op);
  }

  void reduce_precision(const Op& op) {
    out_ += "stablehlo.reduce_precision " + uses(op) + ", format = e" + std::to_string(op.attrs.integer("exponent_bits")) + "m" +
            std::to_string(op.attrs.integer("mantissa_bits"));
    attributes(op, {"exponent_bits", "mantissa_bits"});
    out_ += " : " + short_types(op);
  }

  void returns(const Op& op) {
    const bool inner = depth_ > 1;
    out_ += inner ? "stablehlo.return" : "return";
    if (!inner) attributes(op);
    if (!op.operands.empty()) out_ += " " + uses(op);
    if (inner) attributes(op);
    if (!op.operands.empty()) out_ += " : " + types_text(operand_types(op));
  }

  std::string out_;
  int indent_ = 0, depth_ = 0;
  std::unordered_map<const Value*, std::string> names_;
  int64_t next_value_ = 0, next_arg_ = 0;
};

}  // namespace

std::string print(const Module& module) {
  Printer printer;
  printer.module(module);
  return printer.take();
}

std::string print(const Function& function) {
  Printer printer;
  printer.function(function);
  return printer.take();
}

std::string print(const Op& op) {
  Printer printer;
  printer.op(op);
  std::string text = printer.take();
  text.pop_back();
  return text;
}

}  // namespace thalweg::ir
