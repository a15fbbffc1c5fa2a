// Fuses, makes steps, places buffers.
#include "compiler/assembly.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "codegen/cuda/nest.h"
#include "compiler/division.h"
#include "plan/arena.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

using ir::OpCode;

// Where a buffer lives, and when.
struct Home {
  enum class Kind : uint8_t { Argument, Output, Constant, Arena } kind = Kind::Arena;
  size_t index = 0;
  int64_t bytes = 0;
  int first = -1, last = -1;
};

class Assembler {
 public:
  Assembler(ir::Function& function, const Options& options, const ir::Module* module) : function_(function), options_(options), module_(module) {}
  Assembly run();

 private:
  void make_steps();
  void add_nest(const codegen::Nest& nest, const codegen::FusionResult& fusion);
  void add_code(const codegen::Nest& nest, codegen::NestCode code, codegen::NestCode (*combine)(const codegen::NestPartial& partial, const ir::Value* initial));
  void bind_outputs();
  void find_homes();
  void find_aliases();
  bool may_alias(size_t argument, const ir::Value* output, int bytes_per_element) const;
  void place_arena();
  size_t constant(const ir::Literal& literal);
  exec::Ref ref(const BufferKey& key) const;

  ir::Function& function_;
  const Options& options_;
  const ir::Module* module_;
  exec::Frame program_;
  std::vector<Step> steps_;
  std::vector<runtime::BufferPtr> held_;
  int temporaries_ = 0;
  std::map<BufferKey, Home> homes_;
  std::vector<std::pair<BufferKey, int64_t>> arena_;
  std::map<BufferKey, int64_t> arena_offset_;
  std::map<const ir::Value*, size_t> output_of_;
};

// The nest in a few words: how many values it computes, and the ops and types of those that are stored.
std::string words_of(const codegen::Nest& nest) {
  std::string text = std::to_string(nest.members.size()) + (nest.members.size() == 1 ? " op:" : " ops:");
  for (size_t i = 0; i < nest.stored.size() && i < 4; ++i)
    text += (i ? ", " : " ") + std::string(ir::name(nest.stored[i]->def->code)) + " " + ir::to_string(nest.stored[i]->type);
  if (nest.stored.size() > 4) text += ", …";
  return text;
}

void Assembler::add_nest(const codegen::Nest& nest, const codegen::FusionResult& fusion) {
  const auto is_buffer = [&](const ir::Value* v) { return fusion.buffers.count(v) != 0; };
  if (!on_gpu(options_)) return add_code(nest, codegen::write_nest(nest, is_buffer), &codegen::write_combine);
  const int multiprocessors = runtime::cuda::properties(*options_.device).multiprocessors;
  for (const codegen::Nest& piece : codegen::cuda::pieces(nest, is_buffer, multiprocessors))
    add_code(piece, codegen::cuda::write_nest(piece, is_buffer, multiprocessors), &codegen::cuda::write_combine);
}

// The step of a nest's text, and those that put its partial results together.
void Assembler::add_code(const codegen::Nest& nest, codegen::NestCode code,
                         codegen::NestCode (*combine)(const codegen::NestPartial& partial, const ir::Value* initial)) {
  std::map<size_t, int> partial_buffers;
  for (const codegen::NestPartial& partial : code.partials) partial_buffers[partial.arg] = temporaries_++;
  auto part_of = [&](codegen::NestCode&& c, int partial_buffer) {
    KernelPart part;
    part.what = partial_buffer < 0 ? words_of(nest) : "sums put together";
    part.body = std::move(c.body), part.units = c.units, part.unit_cost = c.unit_cost, part.lanes = c.lanes, part.shared_bytes = c.shared_bytes;
    for (size_t i = 0; i < c.args.size(); ++i) {
      const codegen::NestArg& a = c.args[i];
      StepArg arg{{a.value, -1}, a.bytes, a.role != codegen::NestArg::Role::Read, a.same_index};
      if (a.role == codegen::NestArg::Role::Partial) {
        arg.buffer = {nullptr, partial_buffer >= 0 ? partial_buffer : partial_buffers.at(i)};
        arg.write = partial_buffer < 0;
      }
      part.args.push_back(arg);
    }
    Step step;
    step.parts.push_back(std::move(part));
    steps_.push_back(std::move(step));
  };
  std::vector<codegen::NestPartial> partials = code.partials;
  part_of(std::move(code), -1);
  for (const codegen::NestPartial& partial : partials) {
    const ir::Op& op = *partial.result->def;
    const ir::Value* initial = codegen::canonical(op.operands[op.results.size() + partial.result->index]);
    part_of(combine(partial, initial), partial_buffers.at(partial.arg));
  }
}

void Assembler::make_steps() {
  Division division = divide(function_, options_, module_, program_.info);
  division.context.temporaries = &temporaries_;
  division.context.held = &held_;
  for (const codegen::Work& work : division.fusion.works) {
    if (work.is_nest()) {
      add_nest(work.nest, division.fusion);
    } else {
      add_heavy_steps(*work.op, division.context, steps_);
    }
  }
  std::erase_if(steps_, [](const Step& step) {
    return step.is_kernel() && std::all_of(step.parts.begin(), step.parts.end(), [](const KernelPart& p) { return p.units == 0; });
  });
  bundle(steps_);
}

size_t Assembler::constant(const ir::Literal& literal) {
  std::vector<std::byte> bytes(static_cast<size_t>(literal.type.bytes()));
  const size_t size = literal.data.size();
  if (size > 0)
    for (size_t at = 0; at < bytes.size(); at += size)
      std::copy(literal.data.begin(), literal.data.begin() + static_cast<int64_t>(std::min(size, bytes.size() - at)), bytes.begin() + static_cast<int64_t>(at));
  program_.constants.push_back(std::move(bytes));
  return program_.constants.size() - 1;
}

// The first output of a computed value is where it is computed; arguments are handed on; all others are copied at the end.
void Assembler::bind_outputs() {
  const auto& results = function_.body.terminator().operands;
  for (size_t i = 0; i < results.size(); ++i) {
    const ir::Value* value = codegen::canonical(results[i]);
    exec::OutputPlan plan;
    plan.bytes = static_cast<size_t>(results[i]->type.is_tensor() ? results[i]->type.bytes() : 0);
    if (!value->def) {
      plan.alias = static_cast<int>(value->index), plan.forward = true;
    } else if (value->def->code == OpCode::Constant || !output_of_.try_emplace(value, i).second) {
      Step copy;
      copy.name = "copy";
      copy.copies = true;
      const size_t bytes = plan.bytes;
      copy.call = [bytes](void* const* args) { std::memcpy(args[1], args[0], bytes); };
      copy.args = {{{value, -1}, static_cast<int64_t>(bytes), false, false},
                   {{results[i], static_cast<int>(1'000'000 + i)}, static_cast<int64_t>(bytes), true, false}};
      Home home;
      home.kind = Home::Kind::Output, home.index = i, home.bytes = static_cast<int64_t>(bytes);
      homes_[copy.args[1].buffer] = home;
      if (bytes > 0) steps_.push_back(std::move(copy));
    }
    program_.outputs.push_back(plan);
  }
}

void Assembler::find_homes() {
  for (size_t s = 0; s < steps_.size(); ++s) {
    steps_[s].each_arg([&](const StepArg& arg, size_t) {
      auto [it, fresh] = homes_.try_emplace(arg.buffer);
      Home& home = it->second;
      const ir::Value* value = arg.buffer.value;
      if (fresh) {
        home.bytes = arg.bytes;
        if (value && !value->def) {
          home.kind = Home::Kind::Argument, home.index = value->index;
        } else if (value && output_of_.count(value)) {
          home.kind = Home::Kind::Output, home.index = output_of_.at(value);
        } else if (value && value->def->code == OpCode::Constant) {
          home.kind = Home::Kind::Constant, home.index = constant(*value->def->attrs.literal("value"));
        }
      }
      home.bytes = std::max(home.bytes, arg.bytes);
      if (home.first < 0) home.first = static_cast<int>(s);
      home.last = static_cast<int>(s);
    });
  }
}

// True when writing `output` over the argument's bytes destroys nothing that is still to be read, and no later command can fail.
bool Assembler::may_alias(size_t argument, const ir::Value* output, int bytes_per_element) const {
  const BufferKey in{function_.body.args[argument].get(), -1}, out{output, -1};
  auto home = homes_.find(out);
  if (home == homes_.end()) return false;
  const int at = home->second.first;
  for (size_t s = 0; s < steps_.size(); ++s)
    if (steps_[s].fallible && (static_cast<int>(s) >= at || on_gpu(options_))) return false;  // a GPU goes on behind what has failed
  auto uses = homes_.find(in);
  if (uses == homes_.end()) return true;
  if (uses->second.last < at) return true;
  if (uses->second.last > at) return false;
  if (steps_[at].copies) return steps_[at].args[0].buffer == in;
  if (!steps_[at].is_kernel()) return false;
  std::set<size_t> readers, writers;
  bool same = function_.body.args[argument]->type.dtype == output->type.dtype || ir::byte_size(function_.body.args[argument]->type.dtype) == bytes_per_element;
  steps_[at].each_arg([&](const StepArg& arg, size_t part) {
    if (arg.buffer == in) readers.insert(part), same &= arg.same_index;
    if (arg.buffer == out) writers.insert(part), same &= arg.same_index;
  });
  return same && readers == writers && readers.size() == 1;
}

void Assembler::find_aliases() {
  std::set<size_t> taken;
  for (const exec::OutputPlan& plan : program_.outputs)
    if (plan.forward) taken.insert(static_cast<size_t>(plan.alias));
  // First arguments of the same type that the same command reads, then any that are no longer needed.
  for (bool strict : {true, false}) {
    for (size_t index = 0; index < program_.outputs.size(); ++index) {
      const ir::Value* value = codegen::canonical(function_.body.terminator().operands[index]);
      exec::OutputPlan& plan = program_.outputs[index];
      if (!output_of_.count(value) || output_of_.at(value) != index) continue;
      if (plan.alias >= 0 || plan.bytes == 0) continue;
      // A loop's state stays where it is when its own argument will do.
      const size_t count = function_.body.args.size();
      for (size_t tried = 0; tried < count; ++tried) {
        const size_t a = index < count ? (index + tried) % count : tried;
        const ir::Value* arg = function_.body.args[a].get();
        if (taken.count(a) || !arg->type.is_tensor() || static_cast<size_t>(arg->type.bytes()) != plan.bytes || program_.argument_scalar[a]) continue;
        auto uses = homes_.find({arg, -1});
        auto written = homes_.find({value, -1});
        if (strict && (uses == homes_.end() || written == homes_.end() || uses->second.last != written->second.first || arg->type.dtype != value->type.dtype))
          continue;
        if (!may_alias(a, value, static_cast<int>(ir::byte_size(value->type.dtype)))) continue;
        plan.alias = static_cast<int>(a);
        taken.insert(a);
        break;
      }
    }
  }
}

void Assembler::place_arena() {
  std::vector<plan::Lifetime> lifetimes;
  std::vector<BufferKey> keys;
  std::set<BufferKey> seen;
  for (const Step& step : steps_)
    step.each_arg([&](const StepArg& arg, size_t) {
      const Home& home = homes_.at(arg.buffer);
      if (home.kind != Home::Kind::Arena || home.bytes == 0 || !seen.insert(arg.buffer).second) return;
      lifetimes.push_back({home.bytes, home.first, home.last});
      keys.push_back(arg.buffer);
    });
  plan::Placement placement = plan::place(lifetimes, static_cast<int64_t>(on_gpu(options_) ? exec::kScratchAlignment : 64));
  for (size_t i = 0; i < keys.size(); ++i) arena_offset_[keys[i]] = placement.offsets[i];
  program_.arena_bytes = static_cast<size_t>(placement.total);
}

exec::Ref Assembler::ref(const BufferKey& key) const {
  const Home& home = homes_.at(key);
  switch (home.kind) {
    case Home::Kind::Argument:
      return {program_.argument_slot(home.index), 0};
    case Home::Kind::Output:
      return {program_.output_slot(home.index), 0};
    case Home::Kind::Constant:
      return {program_.constant_slot(home.index), 0};
    case Home::Kind::Arena:
      break;
  }
  auto it = arena_offset_.find(key);
  return {program_.arena_slot(), it == arena_offset_.end() ? 0 : it->second};
}

Assembly Assembler::run() {
  for (const auto& arg : function_.body.args) {
    const bool tensor = arg->type.is_tensor();
    program_.argument_bytes.push_back(static_cast<size_t>(tensor ? arg->type.bytes() : 0));
    program_.argument_scalar.push_back(tensor && arg->type.rank() == 0 && arg->type.bytes() <= 8);
  }
  make_steps();
  bind_outputs();
  find_homes();
  find_aliases();
  place_arena();
  program_.info.temporary_bytes = program_.arena_bytes;
  std::map<BufferKey, exec::Ref> places;
  for (const auto& [key, home] : homes_) places[key] = ref(key);
  return {std::move(program_), std::move(steps_), std::move(places), std::move(held_)};
}

}  // namespace

bool on_gpu(const Options& options) { return options.device && runtime::cuda::is_cuda(*options.device); }

std::vector<exec::Ref> Assembly::refs(const std::vector<StepArg>& args) const {
  std::vector<exec::Ref> out;
  for (const StepArg& arg : args) out.push_back(places.at(arg.buffer));
  return out;
}

void dump_kernel(const std::string& file, const std::string& text) {
  if (const char* folder = std::getenv("THALWEG_DUMP_KERNELS")) std::ofstream(std::string(folder) + "/" + file) << text;
}

Assembly assemble(ir::Function& function, const Options& options, const ir::Module* module) { return Assembler(function, options, module).run(); }

}  // namespace thalweg::compiler
