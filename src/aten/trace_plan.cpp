// How the arguments of one overload become the arguments of a row: worked out once from the schemas, walked at each call.
#include "aten/trace_plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace thalweg::aten {
namespace {

using Arguments = std::vector<c10::Argument>;

c10::TypePtr bare_type(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  return type;
}

Take take_of_list(const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::OptionalType:
      return Take::kTensors;
    case c10::TypeKind::NumberType:
      return Take::kScalars;
    case c10::TypeKind::IntType:
      return Take::kInts;
    case c10::TypeKind::FloatType:
      return Take::kDoubles;
    case c10::TypeKind::BoolType:
      return Take::kBools;
    default:
      return Take::kNothing;
  }
}

Take take_of(const c10::Argument& argument) {
  const c10::TypePtr type = bare_type(argument);
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Take::kTensor;
    case c10::TypeKind::ListType:
      return take_of_list(type->expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::NumberType:
      return Take::kScalar;
    case c10::TypeKind::IntType:
      return Take::kInt;
    case c10::TypeKind::FloatType:
      return Take::kDouble;
    case c10::TypeKind::BoolType:
      return Take::kBool;
    case c10::TypeKind::StringType:
      return Take::kString;
    default:
      return Take::kNothing;
  }
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// A keyword argument that only takes the result.
bool is_out(const c10::Argument& argument) { return is_written(argument) && argument.kwarg_only(); }

bool has_name(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

bool is_tensor_option(const c10::Argument& argument) {
  return argument.name() == "dtype" || argument.name() == "layout" || argument.name() == "device" || argument.name() == "pin_memory";
}

// The place of the row's argument among the overload's: by name, else the same place.
int position_of(const c10::Argument& argument, size_t place, const Arguments& in) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].name() == argument.name()) return static_cast<int>(i);
  }
  if (place < in.size() && *in[place].type() == *argument.type()) return static_cast<int>(place);
  return -1;
}

std::unique_ptr<Plan> make_plan(const lazy::Row& row, const c10::FunctionSchema& functional, const c10::OperatorHandle& op, ResultMode mode) {
  auto plan = std::make_unique<Plan>(row, op);
  const c10::FunctionSchema& schema = op.schema();
  plan->mode = mode;
  plan->arguments = static_cast<int>(schema.arguments().size());
  plan->returns = static_cast<int>(schema.returns().size());
  // Without tensors the numbers make the shape (arange, linspace).
  plan->shape_needs_numbers = std::ranges::none_of(functional.arguments(), [](const c10::Argument& a) {
    const Take take = take_of(a);
    return (take == Take::kTensor || take == Take::kTensors) && !is_out(a);
  });
  for (size_t i = 0; i < functional.arguments().size(); ++i) {
    const c10::Argument& argument = functional.arguments()[i];
    PlanArg arg;
    arg.take = is_out(argument) ? Take::kNothing : take_of(argument);  // an out's old content does not matter
    arg.position = position_of(argument, i, schema.arguments());
    arg.takes_any_device = argument.name() == "indices";
    if (arg.take == Take::kDouble) arg.is_static = !(row.flags & lazy::kDoublesDynamic);
    if (arg.take == Take::kScalar) arg.is_static = row.flags & lazy::kScalarsStatic;
    if (mode == ResultMode::kFresh && has_name(row.also_writes, argument.name())) plan->also_written.push_back(arg.position);
    plan->args.push_back(arg);
  }
  for (int i = 0; i < plan->arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[static_cast<size_t>(i)];
    if (is_written(argument)) plan->written.push_back(i);
    const c10::TypeKind kind = bare_type(argument)->kind();
    if (kind == c10::TypeKind::DeviceObjType) plan->device = i;
    if (kind == c10::TypeKind::GeneratorType) plan->generator = i;
  }
  static uint64_t next_id = 0;
  plan->id = ++next_id;
  return plan;
}

// True when `schema` has the functional one's arguments (but for TensorOptions), followed by nothing but written keyword arguments.
bool is_out_variant(const c10::FunctionSchema& schema, const c10::FunctionSchema& functional) {
  std::vector<const c10::Argument*> wanted, given;
  size_t outs = 0;
  for (const auto& argument : functional.arguments()) {
    if (!is_tensor_option(argument)) wanted.push_back(&argument);
  }
  for (const auto& argument : schema.arguments()) {
    if (is_written(argument)) {
      if (!argument.kwarg_only()) return false;
      ++outs;
    } else {
      if (outs) return false;
      if (!is_tensor_option(argument)) given.push_back(&argument);
    }
  }
  if (outs == 0 || outs != functional.returns().size() || wanted.size() != given.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (*wanted[i]->type() != *given[i]->type()) return false;
  }
  return true;
}

// In-place names that do not follow from the functional one by a trailing underscore.
c10::OperatorName in_place_name(const c10::OperatorName& name) {
  if (name.name == "aten::normal_functional") return {"aten::normal_", ""};
  if (name.name == "aten::bernoulli" && name.overload_name == "p") return {"aten::bernoulli_", "float"};
  return {name.name + "_", name.overload_name};
}

const std::unordered_map<std::string, std::vector<c10::OperatorName>>& overloads_by_name() {
  static const auto* map = [] {
    auto* out = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) (*out)[name.name].push_back(name);
    return out;
  }();
  return *map;
}

}  // namespace

std::vector<std::unique_ptr<Plan>> plans_of(const lazy::Row& row) {
  std::vector<std::unique_ptr<Plan>> plans;
  auto& dispatcher = c10::Dispatcher::singleton();
  const std::string full = row.name;
  const size_t dot = full.find('.');
  const c10::OperatorName name(full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1));
  const auto op = dispatcher.findSchema(name);
  if (!op) return plans;
  const c10::FunctionSchema& functional = op->schema();
  if (functional.is_mutable()) {  // the row names an in-place or out= operation itself
    const bool out = std::ranges::any_of(functional.arguments(), is_out);
    plans.push_back(make_plan(row, functional, *op, out ? ResultMode::kOut : ResultMode::kInPlace));
    return plans;
  }
  plans.push_back(make_plan(row, functional, *op, ResultMode::kFresh));
  // Composites stay composites in their other forms: autograd does not know those.
  if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return plans;
  if (const auto in_place = dispatcher.findSchema(in_place_name(name)); in_place && in_place->schema().is_mutable()) {
    plans.push_back(make_plan(row, functional, *in_place, ResultMode::kInPlace));
  }
  if (const auto found = overloads_by_name().find(name.name); found != overloads_by_name().end()) {
    for (const auto& other : found->second) {
      const auto candidate = dispatcher.findSchema(other);
      if (candidate && is_out_variant(candidate->schema(), functional)) plans.push_back(make_plan(row, functional, *candidate, ResultMode::kOut));
    }
  }
  return plans;
}

}  // namespace thalweg::aten
