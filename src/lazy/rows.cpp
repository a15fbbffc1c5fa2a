// The table of traced operations, joined from its groups.
#include "lazy/rows.h"

#include <unordered_map>

namespace thalweg::lazy {

const std::vector<Row>& rows() {
  static const auto* table = [] {
    auto* all = new std::vector<Row>;
    for (auto group :
         {pointwise_rows, activation_rows, reduction_rows, shape_rows, index_rows, product_rows, normalization_rows, pooling_rows, random_rows, foreach_rows})
      for (const Row& row : group()) all->push_back(row);
    return all;
  }();
  return *table;
}

const Row* find_row(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const Row*>;
    for (const Row& row : rows()) map->emplace(row.name, &row);
    return map;
  }();
  auto it = index->find(name);
  return it == index->end() ? nullptr : it->second;
}

}  // namespace thalweg::lazy
