// One op: its results' names, then the generic form or the pretty form of its dialect.
#include "ir/parser_state.h"

namespace thalweg::ir {
namespace {

using Names = std::vector<std::pair<std::string_view, int64_t>>;

std::string_view without(std::string_view text, std::string_view prefix) { return text.starts_with(prefix) ? text.substr(prefix.size()) : text; }

}  // namespace

void Parser::op(Block& block) {
  Names names;
  Draft draft;
  draft.begin = lexer_.peek().begin;
  while (lexer_.peek().kind == TokenKind::Value) {
    const std::string_view name = lexer_.take().text;
    int64_t count = 1;
    if (lexer_.accept(':')) count = integer();
    if (count < 1) lexer_.fail(draft.begin, "number of results is not positive, expected at least 1: " + std::to_string(count));
    names.emplace_back(name, count);
    if (!lexer_.accept(',')) {
      lexer_.expect('=');
      break;
    }
  }
  if (lexer_.peek().kind == TokenKind::String)
    generic_op(draft);
  else
    pretty_op(draft, lexer_.expect(TokenKind::Word, "an op").text);
  skip_location();
  append(block, draft, names);
}

void Parser::append(Block& block, Draft& draft, const Names& names) {
  auto op = std::make_unique<Op>();
  op->code = draft.code;
  op->operands = std::move(draft.operands);
  op->attrs = std::move(draft.attrs);
  op->regions = std::move(draft.regions);
  op->location.file = lexer_.file();
  op->location.line = lexer_.line(draft.begin);
  for (Type& type : draft.results) {
    auto value = std::make_unique<Value>();
    value->type = std::move(type);
    value->def = op.get();
    value->index = static_cast<uint32_t>(op->results.size());
    op->results.push_back(std::move(value));
  }
  size_t next = 0;
  for (const auto& [name, count] : names) {
    if (next + static_cast<size_t>(count) > op->results.size())
      lexer_.fail(draft.begin, "op has fewer results than names, expected " + std::to_string(op->results.size()) + " in all");
    std::vector<Value*> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(op->results[next++].get());
    define(name, draft.begin, std::move(values));
  }
  if (!names.empty() && next != op->results.size())
    lexer_.fail(draft.begin, "op has more results than names, expected " + std::to_string(op->results.size()) + " in all");
  block.ops.push_back(std::move(op));
}

void Parser::check_operands(const Draft& draft, const std::vector<Type>& types) {
  if (types.size() != draft.operands.size())
    lexer_.fail(draft.begin,
                "op has " + std::to_string(draft.operands.size()) + " operands but " + std::to_string(types.size()) + " operand types, expected as many");
  for (size_t i = 0; i < types.size(); ++i)
    if (draft.operands[i]->type != types[i])
      lexer_.fail(draft.begin,
                  "operand " + std::to_string(i) + " has type " + to_string(draft.operands[i]->type) + ", expected the given " + to_string(types[i]));
}

// "dialect.op"(operands) <{properties}> ({regions}) {attributes} : function type
void Parser::generic_op(Draft& draft) {
  const Token token = lexer_.take();
  const bool known = token.text.starts_with("stablehlo.") || token.text.starts_with("func.") || token.text.starts_with("mhlo.");
  const auto code = known ? parse_op(token.text.substr(token.text.find('.') + 1)) : std::nullopt;
  draft.name = token.text;
  draft.operands = uses_in_parentheses();
  if (!code && !token.text.starts_with("chlo."))
    lexer_.fail(token.begin, "unknown op: " + std::string(token.text) + ", expected one of StableHLO, CHLO or func");
  if (code) draft.code = *code;
  generic_properties(draft);
  if (!code && !draft.regions.empty()) lexer_.fail(token.begin, "op has regions: " + std::string(token.text) + ", expected a CHLO op, which has none");
  lexer_.expect(':');
  const FunctionType types = function_type();
  check_operands(draft, types.operands);
  draft.results = types.results;
  if (draft.code == OpCode::Return && code && !draft.results.empty())
    lexer_.fail(token.begin, "op has results: " + std::string(token.text) + ", expected () behind ->");
  if (code) return;
  const std::string name(token.text);
  Attributes all = std::move(draft.attrs);
  draft.attrs = {};
  draft.code = parse_chlo(name).value_or(OpCode::Composite);
  if (draft.code != OpCode::Composite) return;
  draft.attrs.set("name", name);
  draft.attrs.set("composite_attributes", std::make_shared<const Attributes>(std::move(all)));
}

void Parser::generic_properties(Draft& draft) {
  if (lexer_.accept('<')) {
    draft.attrs = attribute_dictionary();
    lexer_.expect('>');
  }
  if (lexer_.accept('(')) {
    while (!lexer_.accept(')')) {
      if (!draft.regions.empty()) lexer_.expect(',');
      draft.regions.push_back(region());
    }
  }
  optional_attributes(draft);
  // Older text writes lists of numbers as rank-1 tensors.
  Attributes plain;
  for (const auto& [name, value] : draft.attrs) {
    plain.set(name, value);
    if (std::holds_alternative<Dims>(value.value) && value.type.starts_with("tensor<") && value.type.find('x') == value.type.rfind('x'))
      plain.set(name, std::get<Dims>(value.value));
  }
  draft.attrs = std::move(plain);
  if (draft.code == OpCode::DotGeneral && draft.attrs.has("dot_dimension_numbers")) set_dot_dims(draft.attrs, dot_dims(draft.attrs));
}

void Parser::optional_attributes(Draft& draft) {
  if (!lexer_.peek().is('{')) return;
  for (auto& [name, value] : attribute_dictionary()) draft.attrs.set(name, value);
}

void Parser::pretty_op(Draft& draft, std::string_view name) {
  draft.name = name;
  if (name.starts_with("chlo.")) return chlo_op(draft, name);
  if (name == "sdy.sharding_constraint") return sharding_constraint(draft);
  const auto code = parse_op(without(without(name, "stablehlo."), "func."));
  if (!code) lexer_.fail(draft.begin, "unknown op: " + std::string(name) + ", expected one of StableHLO, CHLO or func");
  draft.code = *code;
  switch (*code) {
    case OpCode::Constant:
      return constant_form(draft);
    case OpCode::Compare:
      return compare_form(draft);
    case OpCode::Slice:
      return slice_form(draft);
    case OpCode::DotGeneral:
      return dot_general_form(draft);
    case OpCode::Convolution:
      return convolution_form(draft);
    case OpCode::Reduce:
      return reduce_form(draft);
    case OpCode::While:
      return while_form(draft);
    case OpCode::Call:
      return call_form(draft);
    case OpCode::CustomCall:
      return custom_call_form(draft);
    case OpCode::Composite:
      return composite_form(draft);
    case OpCode::GetTupleElement:
      return get_tuple_element_form(draft);
    case OpCode::ReducePrecision:
      return reduce_precision_form(draft);
    case OpCode::Return:
      return return_form(draft);
    default:
      break;
  }
  if (!has_keyword_form(*code))
    lexer_.fail(draft.begin, "op has no pretty form: " + std::string(name) + ", expected the generic \"" + std::string(name) + "\"(…)");
  keyword_form(draft);
}

// chlo.name %a, %b {attributes} : types -> types, or chlo.name(%a, key = value) : types.
void Parser::chlo_op(Draft& draft, std::string_view name) {
  auto attributes = std::make_shared<Attributes>();
  const bool parenthesized = lexer_.accept('(');
  for (bool first = true; first || lexer_.accept(','); first = false) {
    if (lexer_.peek().kind == TokenKind::Value) {
      draft.operands.push_back(use());
    } else if (lexer_.peek().kind == TokenKind::Word) {
      std::string key(lexer_.take().text);
      lexer_.expect('=');
      attributes->set(std::move(key), attribute());
    }
  }
  if (parenthesized) lexer_.expect(')');
  if (lexer_.peek().is('{'))
    for (auto& [key, value] : attribute_dictionary()) attributes->set(key, value);
  lexer_.expect(':');
  std::vector<Type> types;
  if (lexer_.peek().is('(')) {
    const FunctionType function = function_type();
    types = function.operands;
    draft.results = function.results;
  } else {
    types = type_list();
    if (lexer_.peek().kind == TokenKind::Arrow) {
      lexer_.take();
      if (lexer_.accept('(')) {
        draft.results = type_list();
        lexer_.expect(')');
      } else {
        draft.results = {type()};
      }
    } else {
      draft.results = {types.front()};
      types.assign(draft.operands.size(), types.front());
    }
  }
  check_operands(draft, types);
  draft.code = parse_chlo(name).value_or(OpCode::Composite);
  if (draft.code != OpCode::Composite) return;
  draft.attrs.set("name", std::string(name));
  draft.attrs.set("composite_attributes", std::shared_ptr<const Attributes>(std::move(attributes)));
}

// sdy.sharding_constraint %a <@mesh, [{}]> : T. Kept as a call of that name whose result is its operand.
void Parser::sharding_constraint(Draft& draft) {
  draft.code = OpCode::CustomCall;
  draft.operands = {use()};
  if (!lexer_.peek().is('<')) lexer_.fail_expected("'<'");
  draft.attrs.set("call_target_name", "sdy.sharding_constraint");
  draft.attrs.set("sharding", OpaqueText{std::string(lexer_.take_balanced())});
  optional_attributes(draft);
  lexer_.expect(':');
  draft.results = {type()};
  check_operands(draft, draft.results);
}

FunctionType Parser::function_type() {
  FunctionType types;
  lexer_.expect('(');
  if (!lexer_.accept(')')) {
    types.operands = type_list();
    lexer_.expect(')');
  }
  lexer_.expect_arrow();
  if (!lexer_.accept('(')) {
    types.results = {type()};
  } else if (!lexer_.accept(')')) {
    types.results = type_list();
    lexer_.expect(')');
  }
  return types;
}

std::vector<Type> Parser::type_list() {
  std::vector<Type> types;
  do {
    types.push_back(type());
  } while (lexer_.accept(','));
  return types;
}

// `: T`, `: T, T` or `: (T) -> R`, as far as the op's pretty form leaves types out.
void Parser::trailing_types(Draft& draft) {
  if (draft.code == OpCode::OptimizationBarrier && lexer_.accept('(')) {
    lexer_.expect(')');
    return;
  }
  lexer_.expect(':');
  if (lexer_.peek().is('(')) {
    FunctionType types = function_type();
    check_operands(draft, types.operands);
    draft.results = std::move(types.results);
    return;
  }
  std::vector<Type> types = type_list();
  switch (draft.code) {
    case OpCode::OptimizationBarrier:
      check_operands(draft, types);
      draft.results = std::move(types);
      return;
    case OpCode::Select:
      if (types.size() != 2) lexer_.fail(draft.begin, "select has " + std::to_string(types.size()) + " types, expected the predicate's and the values'");
      check_operands(draft, {types[0], types[1], types[1]});
      draft.results = {types[1]};
      return;
    case OpCode::Tuple:
      check_operands(draft, types[0].elements);
      break;
    case OpCode::Complex: {
      Type part = types[0];
      part.dtype = real_dtype(part.dtype);
      check_operands(draft, {part, part});
      break;
    }
    default:
      check_operands(draft, std::vector<Type>(draft.operands.size(), types[0]));
      break;
  }
  if (types.size() != 1) lexer_.fail(draft.begin, "op has " + std::to_string(types.size()) + " types, expected one or a function type");
  draft.results = {types[0]};
}

}  // namespace thalweg::ir
