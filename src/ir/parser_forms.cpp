// Pretty forms: operands with keywords from the table, and the ops whose syntax is their own.
#include "ir/parser_state.h"

namespace thalweg::ir {
namespace {

using DictPtr = std::shared_ptr<const Attributes>;

}  // namespace

// [1, 2, -3]
std::vector<int64_t> Parser::int_list() {
  std::vector<int64_t> values;
  lexer_.expect('[');
  while (!lexer_.accept(']')) {
    if (!values.empty()) lexer_.expect(',');
    values.push_back(integer());
  }
  return values;
}

std::shared_ptr<const AttributeList> Parser::enum_list(std::string_view kind) {
  auto list = std::make_shared<AttributeList>();
  lexer_.expect('[');
  while (!lexer_.accept(']')) {
    if (!list->empty()) lexer_.expect(',');
    list->push_back(EnumWord{std::string(kind), std::string(lexer_.expect(TokenKind::Word, "a word").text)});
  }
  return list;
}

void Parser::keyword_value(Draft& draft, const Keyword& keyword) {
  std::string name(keyword.attribute);
  switch (keyword.kind) {
    case KeywordKind::Ints:
      draft.attrs.set(name, int_list());
      return;
    case KeywordKind::Integer:
      draft.attrs.set(name, integer());
      return;
    case KeywordKind::Boolean: {
      const Token word = lexer_.expect(TokenKind::Word, "'true' or 'false'");
      draft.attrs.set(name, word.text == "true");
      return;
    }
    case KeywordKind::String:
      draft.attrs.set(name, unescaped(lexer_.expect(TokenKind::String, "a string")));
      return;
    case KeywordKind::Enum:
      draft.attrs.set(name, EnumWord{std::string(keyword.enum_kind), std::string(lexer_.expect(TokenKind::Word, "a word").text)});
      return;
    case KeywordKind::Enums:
      draft.attrs.set(name, enum_list(keyword.enum_kind));
      return;
  }
}

// %a, %b, keyword = value {attributes} : types
void Parser::keyword_form(Draft& draft) {
  const auto table = keywords(draft.code);
  const bool listed = draft.code == OpCode::OptimizationBarrier && lexer_.peek().is('(');
  for (bool first = true; !listed && (first || lexer_.accept(',')); first = false) {
    if (lexer_.peek().kind == TokenKind::Value) {
      draft.operands.push_back(use());
      continue;
    }
    if (lexer_.peek().kind != TokenKind::Word) break;
    const Token word = lexer_.take();
    const Keyword* found = nullptr;
    for (const Keyword& keyword : table)
      if (keyword.text == word.text) found = &keyword;
    if (!found) {
      std::string known;
      for (const Keyword& keyword : table) known += (known.empty() ? "" : ", ") + std::string(keyword.text);
      lexer_.fail(word.begin, "unknown keyword: " + std::string(word.text) + ", expected one of: " + (known.empty() ? "none" : known));
    }
    lexer_.expect('=');
    keyword_value(draft, *found);
  }
  for (const Keyword& keyword : table)
    if (!draft.attrs.has(keyword.attribute) && keyword.kind != KeywordKind::Enums)
      lexer_.fail(draft.begin, "keyword is missing, expected: " + std::string(keyword.text) + " = …");
  optional_attributes(draft);
  trailing_types(draft);
}

void Parser::constant_form(Draft& draft) {
  if (lexer_.peek().is('(')) {  // stablehlo.constant() <{value = …}> : () -> T
    draft.operands = uses_in_parentheses();
    generic_properties(draft);
    lexer_.expect(':');
    draft.results = function_type().results;
    return;
  }
  optional_attributes(draft);
  if (lexer_.peek().is_word("dense")) {
    const LiteralPtr literal = dense();
    draft.attrs.set("value", literal);
    draft.results = {literal->type};
    return;
  }
  const size_t begin = lexer_.peek().begin;
  if (!lexer_.accept_word("dense_resource")) lexer_.fail_expected("'dense<…>'");
  if (!lexer_.peek().is('<')) lexer_.fail_expected("'<'");
  lexer_.take_balanced();
  draft.attrs.set("value", raw(begin, lexer_.taken_end()));
  lexer_.expect(':');
  draft.results = {type()};
}

// compare LT, %a, %b, FLOAT : types
void Parser::compare_form(Draft& draft) {
  const auto word = [&](const char* what, const char* kind) { return EnumWord{kind, std::string(lexer_.expect(TokenKind::Word, what).text)}; };
  draft.attrs.set("comparison_direction", word("a comparison direction", "comparison_direction"));
  lexer_.expect(',');
  draft.operands.push_back(use());
  lexer_.expect(',');
  draft.operands.push_back(use());
  if (lexer_.accept(',')) draft.attrs.set("compare_type", word("a comparison type", "comparison_type"));
  optional_attributes(draft);
  trailing_types(draft);
}

// slice %a [0:4, 4:8:2] : types
void Parser::slice_form(Draft& draft) {
  draft.operands.push_back(use());
  Dims start, limit, stride;
  lexer_.expect('[');
  while (!lexer_.accept(']')) {
    if (!start.empty()) lexer_.expect(',');
    start.push_back(integer());
    lexer_.expect(':');
    limit.push_back(integer());
    stride.push_back(lexer_.accept(':') ? integer() : 1);
  }
  draft.attrs.set("start_indices", start);
  draft.attrs.set("limit_indices", limit);
  draft.attrs.set("strides", stride);
  optional_attributes(draft);
  trailing_types(draft);
}

// dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = […], algorithm = <…> : types
void Parser::dot_general_form(Draft& draft) {
  DotDims dims;
  draft.operands.push_back(use());
  lexer_.expect(',');
  draft.operands.push_back(use());
  const auto pair = [&](Dims& left, Dims& right) {
    left = int_list();
    lexer_.expect_word("x");
    right = int_list();
  };
  while (lexer_.accept(',')) {
    const Token word = lexer_.expect(TokenKind::Word, "a keyword");
    lexer_.expect('=');
    if (word.text == "batching_dims") {
      pair(dims.lhs_batch, dims.rhs_batch);
    } else if (word.text == "contracting_dims") {
      pair(dims.lhs_contract, dims.rhs_contract);
    } else if (word.text == "precision") {
      draft.attrs.set("precision_config", enum_list("precision"));
    } else if (word.text == "algorithm") {
      if (!lexer_.peek().is('<')) lexer_.fail_expected("'<'");
      draft.attrs.set("algorithm", OpaqueText{"#stablehlo.dot_algorithm" + std::string(lexer_.take_balanced())});
    } else {
      lexer_.fail(word.begin, "unknown keyword: " + std::string(word.text) + ", expected one of: batching_dims, contracting_dims, precision, algorithm");
    }
  }
  set_dot_dims(draft.attrs, dims);
  optional_attributes(draft);
  trailing_types(draft);
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
DictPtr Parser::convolution_numbers() {
  ConvDims d;
  const auto layout = [&](std::string_view first, int64_t& first_at, std::string_view second, int64_t& second_at, Dims& spatial) {
    lexer_.expect('[');
    for (int64_t at = 0; !lexer_.accept(']'); ++at) {
      if (at) lexer_.expect(',');
      if (lexer_.accept_word(first)) {
        first_at = at;
      } else if (lexer_.accept_word(second)) {
        second_at = at;
      } else if (!lexer_.accept('?')) {
        const Token token = lexer_.expect(TokenKind::Integer, "a dimension letter or spatial number");
        const int64_t number = integer_of(token);
        if (number < 0 || number > 64) lexer_.fail(token.begin, "spatial number out of range: " + std::to_string(number) + ", expected 0 to 64");
        if (spatial.size() <= static_cast<size_t>(number)) spatial.resize(static_cast<size_t>(number) + 1, -1);
        spatial[static_cast<size_t>(number)] = at;
      }
    }
  };
  layout("b", d.input_batch, "f", d.input_feature, d.input_spatial);
  lexer_.expect_word("x");
  layout("o", d.kernel_output, "i", d.kernel_input, d.kernel_spatial);
  lexer_.expect_arrow();
  layout("b", d.output_batch, "f", d.output_feature, d.output_spatial);
  Attributes attrs;
  set_conv_dims(attrs, d);
  return std::get<DictPtr>(attrs.find("dimension_numbers")->value);
}

// window = {stride = [..], pad = [[l, h], …], lhs_dilate = [..], rhs_dilate = [..], reverse = [..]}
void Parser::window_form(Draft& draft) {
  lexer_.expect('{');
  for (bool first = true; !lexer_.accept('}'); first = false) {
    if (!first) lexer_.expect(',');
    const Token key = lexer_.expect(TokenKind::Word, "a window keyword");
    lexer_.expect('=');
    if (key.text == "stride") {
      draft.attrs.set("window_strides", int_list());
    } else if (key.text == "lhs_dilate") {
      draft.attrs.set("lhs_dilation", int_list());
    } else if (key.text == "rhs_dilate") {
      draft.attrs.set("rhs_dilation", int_list());
    } else if (key.text == "pad") {
      Dims low, high;
      lexer_.expect('[');
      while (!lexer_.accept(']')) {
        if (!low.empty()) lexer_.expect(',');
        const Token at = lexer_.peek();
        const Dims pair = int_list();
        if (pair.size() != 2) lexer_.fail(at.begin, "padding of one dimension has " + std::to_string(pair.size()) + " numbers, expected low and high");
        low.push_back(pair[0]);
        high.push_back(pair[1]);
      }
      draft.attrs.set("padding", padding_attribute(low, high));
    } else if (key.text == "reverse") {
      std::vector<bool> flags;
      lexer_.expect('[');
      while (!lexer_.accept(']')) {
        if (!flags.empty()) lexer_.expect(',');
        const Token token = lexer_.take();
        flags.push_back(token.text == "true" || token.text == "1");
      }
      draft.attrs.set("window_reversal", flags);
    } else {
      lexer_.fail(key.begin, "unknown window keyword: " + std::string(key.text) + ", expected one of: stride, pad, lhs_dilate, rhs_dilate, reverse");
    }
  }
}

void Parser::convolution_form(Draft& draft) {
  draft.operands = uses_in_parentheses();
  lexer_.expect_word("dim_numbers");
  lexer_.expect('=');
  draft.attrs.set("dimension_numbers", Attribute(convolution_numbers(), "#stablehlo.conv"));
  if (lexer_.accept(',')) {
    lexer_.expect_word("window");
    lexer_.expect('=');
    window_form(draft);
  }
  optional_attributes(draft);
  trailing_types(draft);
}

// reduce(%a init: %i), (%b init: %j) [applies stablehlo.add] across dimensions = [0] {attributes} : types [reducer(%x: T, %y: T) … { … }]
void Parser::reduce_form(Draft& draft) {
  std::vector<Value*> inits;
  do {
    lexer_.expect('(');
    draft.operands.push_back(use());
    lexer_.expect_word("init");
    lexer_.expect(':');
    inits.push_back(use());
    lexer_.expect(')');
  } while (lexer_.accept(','));
  draft.operands.insert(draft.operands.end(), inits.begin(), inits.end());
  std::optional<OpCode> applied;
  if (lexer_.accept_word("applies")) {
    const Token word = lexer_.expect(TokenKind::Word, "an op");
    applied = parse_op(word.text.starts_with("stablehlo.") ? word.text.substr(10) : word.text);
    if (!applied || form(*applied) != Form::B) lexer_.fail(word.begin, "not a binary op: " + std::string(word.text) + ", expected one such as stablehlo.add");
  }
  lexer_.expect_word("across");
  lexer_.expect_word("dimensions");
  lexer_.expect('=');
  draft.attrs.set("dimensions", int_list());
  optional_attributes(draft);
  trailing_types(draft);
  auto block = std::make_unique<Block>();
  if (applied) {
    if (inits.size() != 1) lexer_.fail(draft.begin, "short form of reduce has " + std::to_string(inits.size()) + " inputs, expected one");
    Value* a = block->add_arg(inits[0]->type);
    Value* b = block->add_arg(inits[0]->type);
    Builder builder(*block);
    builder.location = {lexer_.file(), lexer_.line(draft.begin), ""};
    builder.ret({builder.binary(*applied, a, b)});
    draft.regions.push_back(std::move(block));
    return;
  }
  // Arguments come in pairs (first, second); the region wants all firsts, then all seconds.
  lexer_.expect_word("reducer");
  std::vector<std::pair<std::string_view, Type>> firsts, seconds;
  while (lexer_.accept('(')) {
    for (auto* side : {&firsts, &seconds}) {
      if (side == &seconds) lexer_.expect(',');
      const std::string_view name = lexer_.expect(TokenKind::Value, "an argument name").text;
      lexer_.expect(':');
      side->emplace_back(name, type());
      skip_location();
    }
    lexer_.expect(')');
  }
  firsts.insert(firsts.end(), seconds.begin(), seconds.end());
  draft.regions.push_back(region(firsts));
}

// while(%x = %init, …) : T, … [attributes {…}] cond { … } do { … }
void Parser::while_form(Draft& draft) {
  std::vector<std::pair<std::string_view, Type>> arguments;
  lexer_.expect('(');
  while (!lexer_.accept(')')) {
    if (!arguments.empty()) lexer_.expect(',');
    const std::string_view name = lexer_.expect(TokenKind::Value, "an argument name").text;
    lexer_.expect('=');
    draft.operands.push_back(use());
    arguments.emplace_back(name, draft.operands.back()->type);
  }
  if (!arguments.empty()) {
    lexer_.expect(':');
    draft.results = type_list();
    check_operands(draft, draft.results);
  }
  if (lexer_.accept_word("attributes")) optional_attributes(draft);
  lexer_.expect_word("cond");
  draft.regions.push_back(region(arguments));
  lexer_.expect_word("do");
  draft.regions.push_back(region(arguments));
}

void Parser::call_form(Draft& draft) {
  draft.attrs.set("callee", Symbol{unescaped(lexer_.expect(TokenKind::Symbol, "a function name"))});
  draft.operands = uses_in_parentheses();
  optional_attributes(draft);
  trailing_types(draft);
}

void Parser::custom_call_form(Draft& draft) {
  draft.attrs.set("call_target_name", unescaped(lexer_.expect(TokenKind::Symbol, "a target")));
  draft.operands = uses_in_parentheses();
  optional_attributes(draft);
  trailing_types(draft);
}

void Parser::composite_form(Draft& draft) {
  draft.attrs.set("name", unescaped(lexer_.expect(TokenKind::String, "the composite's name")));
  while (lexer_.peek().kind == TokenKind::Value) {
    draft.operands.push_back(use());
    if (!lexer_.accept(',')) break;
  }
  optional_attributes(draft);
  trailing_types(draft);
}

void Parser::get_tuple_element_form(Draft& draft) {
  draft.operands = {use()};
  lexer_.expect('[');
  draft.attrs.set("index", Attribute(integer(), "i32"));
  lexer_.expect(']');
  optional_attributes(draft);
  trailing_types(draft);
}

// reduce_precision %a, format = e8m10 : T
void Parser::reduce_precision_form(Draft& draft) {
  draft.operands = {use()};
  lexer_.expect(',');
  lexer_.expect_word("format");
  lexer_.expect('=');
  const Token token = lexer_.expect(TokenKind::Word, "a format such as e8m10");
  int exponent = -1, mantissa = -1, used = 0;
  const std::string text(token.text);
  if (std::sscanf(text.c_str(), "e%5dm%5d%n", &exponent, &mantissa, &used) != 2 || static_cast<size_t>(used) != text.size() || exponent < 0 || mantissa < 0)
    lexer_.fail(token.begin, "not a format: " + text + ", expected one such as e8m10");
  draft.attrs.set("exponent_bits", Attribute(int64_t{exponent}, "i32"));
  draft.attrs.set("mantissa_bits", Attribute(int64_t{mantissa}, "i32"));
  optional_attributes(draft);
  trailing_types(draft);
}

// func.return has its attributes before its operands, stablehlo.return behind them.
void Parser::return_form(Draft& draft) {
  optional_attributes(draft);
  while (lexer_.peek().kind == TokenKind::Value) {
    draft.operands.push_back(use());
    if (!lexer_.accept(',')) break;
  }
  if (draft.attrs.empty()) optional_attributes(draft);
  if (draft.operands.empty()) return;
  lexer_.expect(':');
  check_operands(draft, type_list());
}

}  // namespace thalweg::ir
