func.func @main(%x: tensor<4x6xf32>, %z: tensor<f32>, %i: tensor<i32>, %s: tensor<3x1xi32>, %k: tensor<2xui64>) {
  %0 = "chlo.stablehlo.reduce_window"(%x, %z) <{padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 3>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x5xf32>
  %1 = stablehlo.pad %x, %z, low = [1, -1], high = [0, 2], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<8x7xf32>
  %2 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2, 2] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  %3 = stablehlo.dynamic_update_slice %x, %2, %i, %i : (tensor<4x6xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
  %4 = "stablehlo.gather"(%3, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<3x1xi32>) -> !tensor<3x6xf32>
  %5 = "stablehlo.scatter"(%x, %s, %4) <{scatter_dimenonis_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dhms = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<3x1xi32>,!tensor<3x6xf32>) -> tensor<4x6xf32>
  %6 = stablehlo.concatenate %5, %x, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  %7, %8 = stablehlo.rng_bit_generator %k, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
  return
}
