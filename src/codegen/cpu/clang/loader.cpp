// ORC's object layer with one library of symbols that kernels may call; each object gets a name space of its own.
#include "codegen/cpu/clang/loader.h"

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include <atomic>
#include <cmath>
#include <cstring>

namespace thalweg::codegen::cpu::clang_backend {
namespace {

using llvm::orc::ExecutorAddr;
using llvm::orc::ExecutorSymbolDef;

// What the compiler may call: the C library functions behind the prelude's builtins, and the memory functions that it makes of loops.
llvm::orc::SymbolMap allowed_symbols(llvm::orc::ExecutionSession& session) {
  llvm::orc::SymbolMap map;
  auto add = [&](const char* name, auto* function) {
    map[session.intern(name)] = ExecutorSymbolDef(ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable);
  };
#define THALWEG_MATH_1(name)                           \
  add(#name, static_cast<double (*)(double)>(::name)); \
  add(#name "f", static_cast<float (*)(float)>(::name##f));
#define THALWEG_MATH_2(name)                                   \
  add(#name, static_cast<double (*)(double, double)>(::name)); \
  add(#name "f", static_cast<float (*)(float, float)>(::name##f));
  THALWEG_MATH_1(exp)
  THALWEG_MATH_1(exp2)
  THALWEG_MATH_1(expm1)
  THALWEG_MATH_1(log)
  THALWEG_MATH_1(log2)
  THALWEG_MATH_1(log10)
  THALWEG_MATH_1(log1p)
  THALWEG_MATH_1(sin)
  THALWEG_MATH_1(cos)
  THALWEG_MATH_1(tan)
  THALWEG_MATH_1(sinh)
  THALWEG_MATH_1(cosh)
  THALWEG_MATH_1(tanh)
  THALWEG_MATH_1(cbrt)
  THALWEG_MATH_1(erf)
  THALWEG_MATH_1(erfc)
  THALWEG_MATH_1(floor)
  THALWEG_MATH_1(ceil)
  THALWEG_MATH_1(trunc)
  THALWEG_MATH_1(round)
  THALWEG_MATH_1(roundeven)
  THALWEG_MATH_1(sqrt)
  THALWEG_MATH_2(pow)
  THALWEG_MATH_2(fmod)
  THALWEG_MATH_2(atan2)
  THALWEG_MATH_2(hypot)
  THALWEG_MATH_2(fmax)  // how -O3 writes some selects
  THALWEG_MATH_2(fmin)
#undef THALWEG_MATH_1
#undef THALWEG_MATH_2
  add("fma", static_cast<double (*)(double, double, double)>(::fma));
  add("fmaf", static_cast<float (*)(float, float, float)>(::fmaf));
  add("exp10", static_cast<double (*)(double)>(::exp10));
  add("ldexp", static_cast<double (*)(double, int)>(::ldexp));
  add("ldexpf", static_cast<float (*)(float, int)>(::ldexpf));
  add("memcpy", static_cast<void* (*)(void*, const void*, size_t)>(::memcpy));
  add("memmove", static_cast<void* (*)(void*, const void*, size_t)>(::memmove));
  add("memset", static_cast<void* (*)(void*, int, size_t)>(::memset));
  add("memcmp", static_cast<int (*)(const void*, const void*, size_t)>(::memcmp));
  add("bcmp", static_cast<int (*)(const void*, const void*, size_t)>(::memcmp));
  // sincos is how -O3 writes sin and cos of one argument.
  add("sincos", static_cast<void (*)(double, double*, double*)>(::sincos));
  add("sincosf", static_cast<void (*)(float, float*, float*)>(::sincosf));
  return map;
}

struct Linker {
  llvm::orc::ExecutionSession session;
  llvm::orc::ObjectLinkingLayer objects;
  llvm::orc::JITDylib& allowed;
  std::atomic<uint64_t> count = 0;

  explicit Linker(std::unique_ptr<llvm::orc::ExecutorProcessControl> process)
      : session(std::move(process)), objects(session, session.getExecutorProcessControl().getMemMgr()), allowed(session.createBareJITDylib("allowed")) {
    session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });  // the caller of lookup gets it too
    llvm::cantFail(allowed.define(llvm::orc::absoluteSymbols(allowed_symbols(session))));
  }
};

// Never destroyed: compiled functions stay callable until the process ends.
Linker* linker(std::string& log) {
  static std::string failure;
  static Linker* made = []() -> Linker* {
    auto process = llvm::orc::SelfExecutorProcessControl::Create();
    if (process) return new Linker(std::move(*process));
    failure = llvm::toString(process.takeError());
    return nullptr;
  }();
  if (!made) log = failure;
  return made;
}

}  // namespace

void* load_object(const char* object, std::size_t size, const std::string& symbol, std::string& log) {
  Linker* l = linker(log);
  if (!l) return nullptr;
  auto& space = l->session.createBareJITDylib("kernel" + std::to_string(l->count++));
  space.addToLinkOrder(l->allowed);
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object, size), space.getName());
  if (auto error = l->objects.add(space, std::move(buffer))) {
    log = llvm::toString(std::move(error));
    return nullptr;
  }
  auto found = l->session.lookup({&space}, l->session.intern(symbol));
  if (!found) {
    log = llvm::toString(found.takeError());
    return nullptr;
  }
  return found->getAddress().toPtr<void*>();
}

}  // namespace thalweg::codegen::cpu::clang_backend
