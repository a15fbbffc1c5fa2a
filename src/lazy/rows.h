// The groups of rows that make up the table.
#pragma once

#include <vector>

#include "lazy/row.h"

namespace thalweg::lazy {

std::vector<Row> pointwise_rows();   // arithmetic, comparisons, selects, copies, fills
std::vector<Row> activation_rows();  // activations and losses, with their gradients
std::vector<Row> reduction_rows();
std::vector<Row> shape_rows();    // concatenation, padding, flips, triangles, ranges
std::vector<Row> index_rows();    // gather, scatter, embedding, sort
std::vector<Row> product_rows();  // matrix products and convolutions
std::vector<Row> normalization_rows();
std::vector<Row> pooling_rows();
std::vector<Row> random_rows();
std::vector<Row> foreach_rows();  // _foreach_* and fused optimizers

}  // namespace thalweg::lazy
