// What the threads of one unit do together, as text before the kernels that need it.
#pragma once

namespace thalweg::codegen::cuda {

// vec: elements that are moved by one instruction; across: one value of all lanes' values, by shuffles and shared memory, in an order that never changes.
extern const char kGroupText[];

}  // namespace thalweg::codegen::cuda
