func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = chlo.top_k(%x, k = 1) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)
  %1:2 = chlo.top_k(%x, api_version = 4 : i32, k = 1, note = "text", list = [1, 2]) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)
  return %x : tensor<2xf32>
}
