// What the threads of one unit do together, as text before the kernels that need it.
#pragma once

namespace thalweg::codegen::cuda {

// vec: elements that are moved by one instruction; across: one value of all lanes' values, by shuffles and shared memory, in an order that never changes;
// before: likewise of the lanes before each;
// sort_tile and merge_part: positions in the order of their elements.
extern const char kGroupText[];

}  // namespace thalweg::codegen::cuda
