// Strided reads and writes of a storage as IR: slices, transposes, broadcasts and reshapes wherever they can be, a gather or scatter otherwise.
#pragma once

#include "ir/builder.h"
#include "lazy/view.h"

namespace thalweg::lazy {

// `memory`: the storage's whole content in memory order (row-major over any dims). Returns the elements that `view` selects, shaped by its sizes.
// A view of another element type reads the same bytes. Elements outside the storage read as zero.
ir::Value* strided_read(ir::Builder& b, ir::Value* memory, const View& view);

// The content with `update` (shaped by view's sizes, of view's dtype) written through `view`; keeps `memory`'s type.
// Elements that share memory must have the same value.
ir::Value* strided_write(ir::Builder& b, ir::Value* memory, const View& view, ir::Value* update);

}  // namespace thalweg::lazy
