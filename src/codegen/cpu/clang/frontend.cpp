// Clang's front end over an in-memory file system: one compiler invocation, prepared once and copied, and the prelude as a precompiled header.
#include "codegen/cpu/clang/frontend.h"

#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Serialization/ASTWriter.h>
#include <llvm/Support/VirtualFileSystem.h>

#include "codegen/cpu/clang/target.h"

namespace thalweg::codegen::cpu::clang_backend {
namespace {

constexpr char kPreludeFile[] = "/prelude.h", kPrecompiledFile[] = "/prelude.pch", kKernelFile[] = "/kernel.cpp";

// cc1's arguments for a file of ours. Contraction off and no fast math: the same text gives the interpreter's bits.
std::vector<std::string> arguments(const char* file) {
  const HostTarget& host = host_target();
  std::vector<std::string> list = {"-triple", host.triple, "-target-cpu", host.cpu};
  for (const auto& feature : host.feature_list) list.insert(list.end(), {"-target-feature", feature});
  list.insert(list.end(), {"-O3", "-std=c++20", "-ffp-contract=off", "-mprefer-vector-width=" + std::to_string(host.vector_bits), "-vectorize-loops",
                           "-vectorize-slp", "-disable-llvm-passes", "-fno-rtti", "-nostdsysteminc", "-nobuiltininc", "-fno-pch-timestamp", "-Wno-everything"});
  bool header = file == kPreludeFile;
  list.insert(list.end(), {"-x", header ? "c++-header" : "c++", file});
  return list;
}

// A compiler whose files are `files` alone and whose messages go to `log`.
class Compiler {
 public:
  Compiler(const char* main_file, llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files, std::string& log) : log_stream_(log) {
    options_ = new clang::DiagnosticOptions;
    instance_.createDiagnostics(new clang::TextDiagnosticPrinter(log_stream_, options_.get()), /*ShouldOwnClient=*/true);
    instance_.setVerboseOutputStream(llvm::nulls());  // or it counts errors on stderr
    std::vector<std::string> list = arguments(main_file);
    std::vector<const char*> pointers;
    for (const auto& argument : list) pointers.push_back(argument.c_str());
    valid_ = clang::CompilerInvocation::CreateFromArgs(instance_.getInvocation(), pointers, instance_.getDiagnostics());
    instance_.setFileManager(new clang::FileManager(clang::FileSystemOptions{}, std::move(files)));
  }
  clang::CompilerInstance& instance() { return instance_; }
  bool run(clang::FrontendAction& action) { return valid_ && instance_.ExecuteAction(action); }

 private:
  llvm::raw_string_ostream log_stream_;
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options_;
  clang::CompilerInstance instance_;
  bool valid_ = false;
};

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> file_system(const char* name, std::string_view content) {
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files(new llvm::vfs::InMemoryFileSystem);
  files->addFile(name, 0, llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(content), name, /*RequiresNullTerminator=*/false));
  return files;
}

// Parses a header into Clang's serialised form in memory.
class PrecompileAction : public clang::ASTFrontendAction {
 public:
  explicit PrecompileAction(std::shared_ptr<clang::PCHBuffer> buffer) : buffer_(std::move(buffer)) {}
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(compiler.getPreprocessor(), compiler.getModuleCache(), kPrecompiledFile, /*isysroot=*/"", buffer_,
                                                 compiler.getFrontendOpts().ModuleFileExtensions);
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool hasASTFileSupport() const override { return false; }

 private:
  std::shared_ptr<clang::PCHBuffer> buffer_;
};

struct Precompiled {
  std::string header, bytes, log;
};

const Precompiled& precompiled(std::string_view prelude) {
  static const Precompiled* made = [&] {
    auto* p = new Precompiled{std::string(prelude), {}, {}};
    auto buffer = std::make_shared<clang::PCHBuffer>();
    Compiler compiler(kPreludeFile, file_system(kPreludeFile, p->header), p->log);
    PrecompileAction action(buffer);
    if (compiler.run(action) && buffer->IsComplete) p->bytes.assign(buffer->Data.begin(), buffer->Data.end());
    return p;
  }();
  return *made;
}

}  // namespace

std::unique_ptr<llvm::Module> parse(llvm::LLVMContext& context, std::string_view prelude, std::string_view text, std::string& log) {
  const Precompiled& header = precompiled(prelude);
  if (header.bytes.empty()) {
    log = "the prelude does not compile:\n" + header.log;
    return nullptr;
  }
  std::string kernel(text);  // Clang wants a terminating zero
  auto files = file_system(kKernelFile, kernel);
  files->addFile(kPreludeFile, 0, llvm::MemoryBuffer::getMemBuffer(header.header, kPreludeFile));
  files->addFile(kPrecompiledFile, 0, llvm::MemoryBuffer::getMemBuffer(header.bytes, kPrecompiledFile, /*RequiresNullTerminator=*/false));
  Compiler compiler(kKernelFile, std::move(files), log);
  auto& preprocessor = compiler.instance().getPreprocessorOpts();
  preprocessor.ImplicitPCHInclude = kPrecompiledFile;
  preprocessor.DisablePCHOrModuleValidation = clang::DisableValidationForModuleKind::PCH;
  clang::EmitLLVMOnlyAction action(&context);
  if (!compiler.run(action)) return nullptr;
  return action.takeModule();
}

}  // namespace thalweg::codegen::cpu::clang_backend
