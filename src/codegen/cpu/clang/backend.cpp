// The C interface over front end, optimiser and loader.
#include "codegen/cpu/clang/backend.h"

#include <llvm/Config/llvm-config.h>

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpu/clang/extract.h"
#include "codegen/cpu/clang/frontend.h"
#include "codegen/cpu/clang/loader.h"
#include "codegen/cpu/clang/optimizer.h"
#include "codegen/cpu/clang/target.h"

namespace thalweg::codegen::cpu::clang_backend {
namespace {

const char* describe() {
  static const auto* text = new std::string("LLVM " LLVM_VERSION_STRING " " + host_target().triple + " " + host_target().cpu + " " +
                                            std::to_string(host_target().vector_bits) + " " + host_target().features);
  return text->c_str();
}

int compile(const char* prelude, std::size_t prelude_size, const char* const* texts, const std::size_t* text_sizes, const char* const* symbols,
            std::size_t count, ThalwegClangSink sink, void* const* sink_contexts) {
  std::string unit, log;
  for (std::size_t i = 0; i < count; ++i) {
    unit += "namespace kernel_" + std::to_string(i) + " {\n";
    unit.append(texts[i], text_sizes[i]);
    unit += "\n}\n";
  }
  llvm::LLVMContext context;
  auto module = parse(context, {prelude, prelude_size}, unit, log);
  std::vector<llvm::SmallVector<char, 0>> objects(count);
  bool good = module != nullptr;
  for (std::size_t i = 0; good && i < count; ++i) {
    auto part = extract(*module, symbols[i], log);
    good = part && emit_object(*part, objects[i], log);
  }
  for (std::size_t i = 0; good && i < count; ++i) sink(sink_contexts[i], objects[i].data(), objects[i].size());
  if (!good) sink(sink_contexts[0], log.data(), log.size());
  return good ? 0 : 1;
}

int load(const char* object, std::size_t size, const char* symbol, void** address, ThalwegClangSink sink, void* sink_context) {
  std::string log;
  *address = load_object(object, size, symbol, log);
  if (!*address) sink(sink_context, log.data(), log.size());
  return *address ? 0 : 1;
}

}  // namespace
}  // namespace thalweg::codegen::cpu::clang_backend

extern "C" __attribute__((visibility("default"))) const ThalwegClangApi* thalweg_clang_api(int interface_version) {
  namespace backend = thalweg::codegen::cpu::clang_backend;
  static const ThalwegClangApi api = {backend::describe, backend::compile, backend::load};
  return interface_version == kThalwegClangInterface ? &api : nullptr;
}
