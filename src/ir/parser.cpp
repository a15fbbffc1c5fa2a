// Modules, functions, regions and the names of values.
#include "ir/parser.h"

#include "ir/parser_state.h"
#include "support/error.h"

namespace thalweg::ir {
namespace {

constexpr int kDeepest = 200;

}  // namespace

Parser::Depth::Depth(Parser& p) : parser(p) {
  if (++parser.depth_ > kDeepest)
    parser.lexer_.fail(parser.lexer_.peek().begin, "text is nested too deeply, expected at most " + std::to_string(kDeepest) + " levels");
}

void Parser::expect_end() {
  if (lexer_.peek().kind != TokenKind::End) lexer_.fail_expected("the end of the text");
}

std::unique_ptr<Module> Parser::module() {
  auto module = std::make_unique<Module>();
  while (lexer_.peek().kind == TokenKind::Hash || lexer_.peek().kind == TokenKind::Bang) top_level_alias();
  if (lexer_.accept_word("module") || lexer_.accept_word("builtin.module")) {
    if (lexer_.peek().kind == TokenKind::Symbol) module->name = unescaped(lexer_.take());
    if (lexer_.accept_word("attributes")) module->attrs = attribute_dictionary();
    lexer_.expect('{');
    module_body(*module, true);
    skip_location();
    while (lexer_.peek().kind == TokenKind::Hash || lexer_.peek().kind == TokenKind::Bang) top_level_alias();
  } else {
    module_body(*module, false);
  }
  expect_end();
  return module;
}

void Parser::module_body(Module& module, bool braced) {
  while (true) {
    if (braced && lexer_.accept('}')) return;
    const Token& token = lexer_.peek();
    if (!braced && token.kind == TokenKind::End) return;
    if (token.kind == TokenKind::Hash || token.kind == TokenKind::Bang) {
      top_level_alias();
    } else if (token.is_word("func.func")) {
      const size_t at = token.begin;
      auto function = this->function();
      if (module.find(function->name)) lexer_.fail(at, "function is defined twice: @" + function->name);
      module.functions.push_back(std::move(function));
    } else if (token.kind == TokenKind::Word && token.text.find('.') != std::string_view::npos && !token.text.starts_with("stablehlo.")) {
      carried_op(module);
    } else {
      lexer_.fail_expected(braced ? "'func.func' or '}'" : "'module' or 'func.func'");
    }
  }
}

// `#name = attribute` or `!name = type`.
void Parser::top_level_alias() {
  const Token name = lexer_.take();
  lexer_.expect('=');
  if (name.kind == TokenKind::Bang)
    type_aliases_[name.text] = type();
  else
    attribute_aliases_[name.text] = attribute();
}

// An op of another dialect at module level: kept as its line says it.
void Parser::carried_op(Module& module) {
  const std::string_view text = lexer_.text();
  const size_t begin = lexer_.peek().begin;
  size_t end = begin;
  while (end < text.size() && text[end] != '\n' && text[end] != '}') {
    const char c = text[end];
    end = c == '<' || c == '{' || c == '(' || c == '[' ? lexer_.balanced_end(end) : end + 1;
  }
  while (end > begin && (text[end - 1] == ' ' || text[end - 1] == '\r')) --end;
  module.extra_ops.emplace_back(text.substr(begin, end - begin));
  lexer_.seek(end);
}

std::unique_ptr<Function> Parser::function() {
  lexer_.expect_word("func.func");
  auto function = std::make_unique<Function>();
  function->is_public = !lexer_.accept_word("private") && !lexer_.accept_word("nested");
  if (function->is_public) lexer_.accept_word("public");
  const Token name = lexer_.expect(TokenKind::Symbol, "a function name");
  function->name = unescaped(name);
  names_.clear();
  push_scope();
  function_arguments(*function);
  const std::vector<Type> results = function_results(*function);
  if (lexer_.accept_word("attributes")) function->attrs = attribute_dictionary();
  if (!lexer_.peek().is('{')) lexer_.fail_expected("a function body; functions without one cannot be run");
  lexer_.expect('{');
  if (lexer_.peek().kind == TokenKind::Block) lexer_.fail_expected("an op; functions of several blocks are not StableHLO");
  block_ops(function->body);
  skip_location();
  pop_scope();
  if (function->body.ops.empty() || function->body.terminator().code != OpCode::Return)
    lexer_.fail(name.begin, "function has no return, expected one: @" + function->name);
  if (function->result_types() != results) lexer_.fail(name.begin, "function returns other types than it declares, expected them equal: @" + function->name);
  return function;
}

void Parser::function_arguments(Function& function) {
  lexer_.expect('(');
  bool any = false;
  while (!lexer_.accept(')')) {
    if (!function.body.args.empty()) lexer_.expect(',');
    const Token name = lexer_.expect(TokenKind::Value, "an argument name");
    lexer_.expect(':');
    Value* value = function.body.add_arg(type());
    define(name.text, name.begin, {value});
    function.arg_attrs.emplace_back();
    if (lexer_.peek().is('{')) {
      function.arg_attrs.back() = attribute_dictionary();
      any = any || !function.arg_attrs.back().empty();
    }
    skip_location();
  }
  if (!any) function.arg_attrs.clear();
}

std::vector<Type> Parser::function_results(Function& function) {
  std::vector<Type> types;
  if (lexer_.peek().kind != TokenKind::Arrow) return types;
  lexer_.take();
  if (!lexer_.accept('(')) return {type()};
  bool any = false;
  while (!lexer_.accept(')')) {
    if (!types.empty()) lexer_.expect(',');
    types.push_back(type());
    function.result_attrs.emplace_back();
    if (lexer_.peek().is('{')) {
      function.result_attrs.back() = attribute_dictionary();
      any = any || !function.result_attrs.back().empty();
    }
  }
  if (!any) function.result_attrs.clear();
  return types;
}

void Parser::skip_location() {
  if (!lexer_.accept_word("loc")) return;
  if (!lexer_.peek().is('(')) lexer_.fail_expected("'('");
  lexer_.take_balanced();
}

// Ops up to and past the closing brace.
void Parser::block_ops(Block& block) {
  Depth depth(*this);
  while (!lexer_.accept('}')) {
    if (lexer_.peek().kind == TokenKind::Block) lexer_.fail_expected("an op or '}'; regions of several blocks are not StableHLO");
    op(block);
  }
}

void Parser::push_scope() { scopes_.emplace_back(); }

void Parser::pop_scope() {
  for (std::string_view name : scopes_.back()) names_.erase(name);
  scopes_.pop_back();
}

void Parser::define(std::string_view name, size_t offset, std::vector<Value*> values) {
  if (!names_.emplace(name, std::move(values)).second) lexer_.fail(offset, "value is defined twice, expected a new name: %" + std::string(name));
  scopes_.back().push_back(name);
}

Value* Parser::use() {
  const Token name = lexer_.expect(TokenKind::Value, "a value");
  const auto found = names_.find(name.text);
  if (found == names_.end()) lexer_.fail(name.begin, "value is not defined, expected the name of an earlier one: %" + std::string(name.text));
  size_t index = 0;
  if (lexer_.peek().kind == TokenKind::Hash && lexer_.peek().begin == name.begin + 1 + name.text.size()) index = static_cast<size_t>(integer_of(lexer_.take()));
  if (index >= found->second.size())
    lexer_.fail(name.begin, "value has no such result, expected a number below " + std::to_string(found->second.size()) + ": %" + std::string(name.text) + "#" +
                                std::to_string(index));
  return found->second[index];
}

std::vector<Value*> Parser::uses_in_parentheses() {
  std::vector<Value*> values;
  lexer_.expect('(');
  while (!lexer_.accept(')')) {
    if (!values.empty()) lexer_.expect(',');
    values.push_back(use());
  }
  return values;
}

std::unique_ptr<Block> Parser::region(const std::vector<std::pair<std::string_view, Type>>& implicit) {
  auto block = std::make_unique<Block>();
  push_scope();
  lexer_.expect('{');
  for (const auto& [name, type] : implicit) {
    Value* value = block->add_arg(type);
    // An argument hides a value of the same name outside; while regions reuse none.
    define(name, lexer_.peek().begin, {value});
  }
  if (lexer_.peek().kind == TokenKind::Block) {
    lexer_.take();
    if (lexer_.accept('(')) {
      while (!lexer_.accept(')')) {
        if (!block->args.empty()) lexer_.expect(',');
        const Token name = lexer_.expect(TokenKind::Value, "an argument name");
        lexer_.expect(':');
        define(name.text, name.begin, {block->add_arg(type())});
        skip_location();
      }
    }
    lexer_.expect(':');
  }
  block_ops(*block);
  pop_scope();
  return block;
}

std::unique_ptr<Module> parse(std::string_view text, std::string file) { return Parser(text, std::move(file)).module(); }

Attribute parse_attribute(std::string_view text) {
  Parser parser(text, "<attribute>");
  Attribute value = parser.attribute();
  parser.expect_end();
  return value;
}

Type parse_type(std::string_view text) {
  Parser parser(text, "<type>");
  Type value = parser.type();
  parser.expect_end();
  return value;
}

}  // namespace thalweg::ir
