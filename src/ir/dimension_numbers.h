// Structured attributes as plain structs: dimension numbers of products, convolutions, gather and scatter, and windows; read from and written to attributes.
#pragma once

#include "ir/attributes.h"

namespace thalweg::ir {

// StableHLO's dimension numbers of dot_general; attribute `dot_dimension_numbers`.
struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  bool operator==(const DotDims&) const = default;
};

// Window and dimension numbers of a convolution; input, kernel and output dims as [batch|out-feature, feature, spatial…] positions.
// Attributes `dimension_numbers`, `window_strides`, `padding`, `lhs_dilation`, `rhs_dilation`, `window_reversal`, `feature_group_count`, `batch_group_count`.
struct ConvDims {
  int64_t input_batch = 0, input_feature = 1;
  Dims input_spatial;
  int64_t kernel_output = 0, kernel_input = 1;
  Dims kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  Dims output_spatial;
  Dims stride, pad_low, pad_high, lhs_dilation, rhs_dilation;
  int64_t feature_groups = 1, batch_groups = 1;
  std::vector<bool> reversal = {};  // empty: none
  bool operator==(const ConvDims&) const = default;
};

// As #stablehlo.gather; attribute `dimension_numbers`.
struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map;
  int64_t index_vector_dim = 0;
  bool operator==(const GatherDims&) const = default;
};

// As #stablehlo.scatter; attribute `scatter_dimension_numbers`.
struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims, scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool operator==(const ScatterDims&) const = default;
};

// The window of reduce_window and select_and_scatter, every member one number a dimension. Attributes `window_dimensions`, `window_strides`,
// `base_dilations`, `window_dilations`, `padding`.
struct Window {
  Dims size, stride, pad_low, pad_high, base_dilation, window_dilation;
  bool operator==(const Window&) const = default;
};

// Reads; absent members are empty or their defaults (1 for strides and dilations, 0 for padding).
DotDims dot_dims(const Attributes& attrs);
ConvDims conv_dims(const Attributes& attrs);
GatherDims gather_dims(const Attributes& attrs);
ScatterDims scatter_dims(const Attributes& attrs);
// `rank`: of the operand, for the defaults.
Window window_of(const Attributes& attrs, int64_t rank);

// Writes the attributes named above.
void set_dot_dims(Attributes& attrs, const DotDims& dims);
void set_conv_dims(Attributes& attrs, const ConvDims& dims);
void set_gather_dims(Attributes& attrs, const GatherDims& dims);
void set_scatter_dims(Attributes& attrs, const ScatterDims& dims);
void set_window(Attributes& attrs, const Window& window);

// Low and high padding interleaved, as attribute `padding` holds it (an n×2 tensor).
Attribute padding_attribute(const Dims& low, const Dims& high);

}  // namespace thalweg::ir
