// The parser: recursive descent over the lexer; one member function a construct, spread over the parser_*.cpp files.
#pragma once

#include <optional>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/lexer.h"
#include "ir/op_forms.h"

namespace thalweg::ir {

// `(operand types) -> result types`.
struct FunctionType {
  std::vector<Type> operands, results;
};

// Reads one text. Every member moves the lexer past what it has read and throws Error(Parse).
class Parser {
 public:
  Parser(std::string_view text, std::string file) : lexer_(text, std::move(file)) {}

  // The whole text as a module; one attribute; one type.
  std::unique_ptr<Module> module();
  Attribute attribute();
  Type type();
  void expect_end();

 private:
  // parser.cpp: modules, functions, regions, names.
  void module_body(Module& module, bool braced);
  void top_level_alias();
  void carried_op(Module& module);
  std::unique_ptr<Function> function();
  void function_arguments(Function& function);
  std::vector<Type> function_results(Function& function);
  void skip_location();
  void block_ops(Block& block);
  void push_scope();
  void pop_scope();
  void define(std::string_view name, size_t offset, std::vector<Value*> values);
  Value* use();
  std::vector<Value*> uses_in_parentheses();
  // `{ … }` with an optional `^bb0(%a: T, …):`; `names` and `types` name the arguments when the text does not.
  std::unique_ptr<Block> region(const std::vector<std::pair<std::string_view, Type>>& implicit = {});

  // parser_ops.cpp: one op.
  struct Draft;  // an op while it is being read
  void op(Block& block);
  void generic_op(Draft& draft);
  void generic_properties(Draft& draft);
  void pretty_op(Draft& draft, std::string_view name);
  void chlo_op(Draft& draft, std::string_view name);
  void sharding_constraint(Draft& draft);
  void append(Block& block, Draft& draft, const std::vector<std::pair<std::string_view, int64_t>>& names);
  void trailing_types(Draft& draft);
  FunctionType function_type();
  std::vector<Type> type_list();
  void check_operands(const Draft& draft, const std::vector<Type>& types);

  // parser_forms.cpp: pretty forms with a syntax of their own.
  void keyword_form(Draft& draft);
  void keyword_value(Draft& draft, const Keyword& keyword);
  void constant_form(Draft& draft);
  void compare_form(Draft& draft);
  void slice_form(Draft& draft);
  void dot_general_form(Draft& draft);
  void convolution_form(Draft& draft);
  void window_form(Draft& draft);
  void reduce_form(Draft& draft);
  void while_form(Draft& draft);
  void call_form(Draft& draft);
  void custom_call_form(Draft& draft);
  void composite_form(Draft& draft);
  void get_tuple_element_form(Draft& draft);
  void reduce_precision_form(Draft& draft);
  void return_form(Draft& draft);
  void optional_attributes(Draft& draft);
  std::vector<int64_t> int_list();
  std::shared_ptr<const AttributeList> enum_list(std::string_view kind);
  std::shared_ptr<const Attributes> convolution_numbers();

  // parser_attributes.cpp: attributes and types.
  Attribute attribute_value();
  Attribute number();
  Attribute hash_attribute();
  Attribute stablehlo_struct(std::string_view name);
  Attribute dense_array();
  Attribute list_attribute();
  Attribute raw(size_t begin, size_t end);
  std::shared_ptr<const Attributes> dictionary(char close, bool plain_lists);
  Attributes attribute_dictionary();
  std::string attribute_name();
  Type tensor_type();
  DType element_type();
  DType complex_type();
  Type opaque_type();
  std::string unescaped(const Token& token);
  int64_t integer();
  int64_t integer_of(const Token& token);

  // parser_literals.cpp.
  LiteralPtr dense();
  Attribute dense_attribute();

  // Guards against text nested deeper than the stack allows.
  struct Depth {
    explicit Depth(Parser& parser);
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  Lexer lexer_;
  int depth_ = 0;
  std::unordered_map<std::string_view, std::vector<Value*>> names_;
  std::vector<std::vector<std::string_view>> scopes_;  // names defined in each open scope
  std::unordered_map<std::string_view, Attribute> attribute_aliases_;
  std::unordered_map<std::string_view, Type> type_aliases_;
};

// An op while it is being read.
struct Parser::Draft {
  size_t begin = 0;
  OpCode code{};
  std::string_view name;
  std::vector<Value*> operands;
  Attributes attrs;
  std::vector<std::unique_ptr<Block>> regions;
  std::vector<Type> results;
};

}  // namespace thalweg::ir
