// Registration of everything with PyTorch's dispatcher.
#pragma once

#include "aten/backend_key.h"
#include "aten/torch_headers.h"

namespace thalweg::aten {

// Registers the device, its kernels, the tracer, the fallback, autocast and the library calls. Idempotent, thread-safe; starts no thread, loads no compiler.
// The environment variable THALWEG_TRACE=0 leaves the traced operations out, so that PyTorch's CPU kernels run everything: a debugging mode that tells an
// error of ours from one of the program's.
void init();
bool is_tracing_enabled();

// A registration handle that lives as long as the process.
torch::Library& new_library(torch::Library::Kind kind, const char* ns, std::optional<c10::DispatchKey> key);

// The parts, each called once by init().
void register_factories();
void register_copies();
void register_attention();  // before the tracer, which needs its schemas
void register_tracer();
void register_fallback();
void register_autocast();
void register_library_calls();
// Takes over the calling thread's torch.get_num_threads() for programs that run from now on.
void note_thread_count();

}  // namespace thalweg::aten
