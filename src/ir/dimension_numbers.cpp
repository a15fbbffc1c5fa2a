// Reading and writing structured attributes.
#include "ir/dimension_numbers.h"

#include "support/error.h"

namespace thalweg::ir {
namespace {

using DictPtr = std::shared_ptr<const Attributes>;

// An absent list is an empty one.
void put(Attributes& dict, const char* name, const Dims& dims) {
  if (!dims.empty()) dict.set(name, dims);
}

// Splits an interleaved n×2 padding into its two columns.
void split_padding(const Attributes& attrs, size_t rank, Dims& low, Dims& high) {
  low.assign(rank, 0);
  high.assign(rank, 0);
  if (!attrs.has("padding")) return;
  const Dims& flat = attrs.ints("padding");
  THALWEG_CHECK(flat.size() == 2 * rank, Verify, "padding needs two numbers a dimension; numbers: ", flat.size(), ", dimensions: ", rank);
  for (size_t i = 0; i < rank; ++i) {
    low[i] = flat[2 * i];
    high[i] = flat[2 * i + 1];
  }
}

bool is_all(const Dims& dims, int64_t value) {
  for (int64_t d : dims)
    if (d != value) return false;
  return true;
}

// Writes `dims` under `name` unless it says what an absent attribute says.
void put_unless(Attributes& attrs, const char* name, const Dims& dims, int64_t absent) {
  if (!is_all(dims, absent)) attrs.set(name, dims);
}

}  // namespace

DotDims dot_dims(const Attributes& attrs) {
  const Attributes& dict = attrs.dict("dot_dimension_numbers");
  return {dict.ints("lhs_batching_dimensions", {}), dict.ints("rhs_batching_dimensions", {}), dict.ints("lhs_contracting_dimensions", {}),
          dict.ints("rhs_contracting_dimensions", {})};
}

void set_dot_dims(Attributes& attrs, const DotDims& dims) {
  auto dict = std::make_shared<Attributes>();
  put(*dict, "lhs_batching_dimensions", dims.lhs_batch);
  put(*dict, "rhs_batching_dimensions", dims.rhs_batch);
  put(*dict, "lhs_contracting_dimensions", dims.lhs_contract);
  put(*dict, "rhs_contracting_dimensions", dims.rhs_contract);
  attrs.set("dot_dimension_numbers", Attribute(DictPtr(dict), "#stablehlo.dot"));
}

ConvDims conv_dims(const Attributes& attrs) {
  const Attributes& dict = attrs.dict("dimension_numbers");
  ConvDims d;
  d.input_batch = dict.integer("input_batch_dimension", 0);
  d.input_feature = dict.integer("input_feature_dimension", 0);
  d.input_spatial = dict.ints("input_spatial_dimensions", {});
  d.kernel_output = dict.integer("kernel_output_feature_dimension", 0);
  d.kernel_input = dict.integer("kernel_input_feature_dimension", 0);
  d.kernel_spatial = dict.ints("kernel_spatial_dimensions", {});
  d.output_batch = dict.integer("output_batch_dimension", 0);
  d.output_feature = dict.integer("output_feature_dimension", 0);
  d.output_spatial = dict.ints("output_spatial_dimensions", {});
  const size_t rank = d.input_spatial.size();
  d.stride = attrs.ints("window_strides", Dims(rank, 1));
  split_padding(attrs, rank, d.pad_low, d.pad_high);
  d.lhs_dilation = attrs.ints("lhs_dilation", Dims(rank, 1));
  d.rhs_dilation = attrs.ints("rhs_dilation", Dims(rank, 1));
  d.feature_groups = attrs.integer("feature_group_count", 1);
  d.batch_groups = attrs.integer("batch_group_count", 1);
  if (const Attribute* reversal = attrs.find("window_reversal"))
    if (auto* flags = std::get_if<std::vector<bool>>(&reversal->value)) d.reversal = *flags;
  return d;
}

void set_conv_dims(Attributes& attrs, const ConvDims& d) {
  auto dict = std::make_shared<Attributes>();
  dict->set("input_batch_dimension", d.input_batch);
  dict->set("input_feature_dimension", d.input_feature);
  put(*dict, "input_spatial_dimensions", d.input_spatial);
  dict->set("kernel_output_feature_dimension", d.kernel_output);
  dict->set("kernel_input_feature_dimension", d.kernel_input);
  put(*dict, "kernel_spatial_dimensions", d.kernel_spatial);
  dict->set("output_batch_dimension", d.output_batch);
  dict->set("output_feature_dimension", d.output_feature);
  put(*dict, "output_spatial_dimensions", d.output_spatial);
  attrs.set("dimension_numbers", Attribute(DictPtr(dict), "#stablehlo.conv"));
  put_unless(attrs, "window_strides", d.stride, 1);
  if (!is_all(d.pad_low, 0) || !is_all(d.pad_high, 0)) attrs.set("padding", padding_attribute(d.pad_low, d.pad_high));
  put_unless(attrs, "lhs_dilation", d.lhs_dilation, 1);
  put_unless(attrs, "rhs_dilation", d.rhs_dilation, 1);
  bool reversed = false;
  for (bool flag : d.reversal) reversed = reversed || flag;
  if (reversed) attrs.set("window_reversal", d.reversal);
  attrs.set("feature_group_count", d.feature_groups);
  attrs.set("batch_group_count", d.batch_groups);
}

GatherDims gather_dims(const Attributes& attrs) {
  const Attributes& dict = attrs.dict("dimension_numbers");
  return {dict.ints("offset_dims", {}),           dict.ints("collapsed_slice_dims", {}),
          dict.ints("operand_batching_dims", {}), dict.ints("start_indices_batching_dims", {}),
          dict.ints("start_index_map", {}),       dict.integer("index_vector_dim", 0)};
}

void set_gather_dims(Attributes& attrs, const GatherDims& dims) {
  auto dict = std::make_shared<Attributes>();
  put(*dict, "offset_dims", dims.offset_dims);
  put(*dict, "collapsed_slice_dims", dims.collapsed_slice_dims);
  put(*dict, "operand_batching_dims", dims.operand_batching_dims);
  put(*dict, "start_indices_batching_dims", dims.start_indices_batching_dims);
  put(*dict, "start_index_map", dims.start_index_map);
  if (dims.index_vector_dim != 0) dict->set("index_vector_dim", dims.index_vector_dim);
  attrs.set("dimension_numbers", Attribute(DictPtr(dict), "#stablehlo.gather"));
}

ScatterDims scatter_dims(const Attributes& attrs) {
  const Attributes& dict = attrs.dict("scatter_dimension_numbers");
  return {dict.ints("update_window_dims", {}),           dict.ints("inserted_window_dims", {}),
          dict.ints("input_batching_dims", {}),          dict.ints("scatter_indices_batching_dims", {}),
          dict.ints("scatter_dims_to_operand_dims", {}), dict.integer("index_vector_dim", 0)};
}

void set_scatter_dims(Attributes& attrs, const ScatterDims& dims) {
  auto dict = std::make_shared<Attributes>();
  put(*dict, "update_window_dims", dims.update_window_dims);
  put(*dict, "inserted_window_dims", dims.inserted_window_dims);
  put(*dict, "input_batching_dims", dims.input_batching_dims);
  put(*dict, "scatter_indices_batching_dims", dims.scatter_indices_batching_dims);
  put(*dict, "scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims);
  if (dims.index_vector_dim != 0) dict->set("index_vector_dim", dims.index_vector_dim);
  attrs.set("scatter_dimension_numbers", Attribute(DictPtr(dict), "#stablehlo.scatter"));
}

Window window_of(const Attributes& attrs, int64_t rank) {
  const auto n = static_cast<size_t>(rank);
  Window w;
  w.size = attrs.ints("window_dimensions", Dims(n, 1));
  w.stride = attrs.ints("window_strides", Dims(n, 1));
  w.base_dilation = attrs.ints("base_dilations", Dims(n, 1));
  w.window_dilation = attrs.ints("window_dilations", Dims(n, 1));
  split_padding(attrs, n, w.pad_low, w.pad_high);
  return w;
}

void set_window(Attributes& attrs, const Window& w) {
  attrs.set("window_dimensions", w.size);
  put_unless(attrs, "window_strides", w.stride, 1);
  put_unless(attrs, "base_dilations", w.base_dilation, 1);
  put_unless(attrs, "window_dilations", w.window_dilation, 1);
  if (!is_all(w.pad_low, 0) || !is_all(w.pad_high, 0)) attrs.set("padding", padding_attribute(w.pad_low, w.pad_high));
}

Attribute padding_attribute(const Dims& low, const Dims& high) {
  Dims flat;
  for (size_t i = 0; i < low.size(); ++i) {
    flat.push_back(low[i]);
    flat.push_back(high[i]);
  }
  return Attribute(std::move(flat), to_string(tensor(DType::S64, {static_cast<int64_t>(low.size()), 2})));
}

}  // namespace thalweg::ir
