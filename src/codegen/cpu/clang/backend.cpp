// The C interface over front end, optimiser and loader.
#include "codegen/cpu/clang/backend.h"

#include <llvm/Config/llvm-config.h>

#include <string>
#include <string_view>

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

int compile(const char* prelude, std::size_t prelude_size, const char* text, std::size_t text_size, ThalwegClangSink sink, void* sink_context) {
  std::string log;
  llvm::LLVMContext context;
  llvm::SmallVector<char, 0> object;
  auto module = parse(context, {prelude, prelude_size}, {text, text_size}, log);
  bool good = module && emit_object(*module, object, log);
  if (good)
    sink(sink_context, object.data(), object.size());
  else
    sink(sink_context, log.data(), log.size());
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
