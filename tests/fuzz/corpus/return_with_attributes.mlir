func.func @none() {
  return {first, second = 1 : i64}
}
func.func @some(%a: tensor<i1>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<i1>) {
  %0 = "stablehlo.if"(%a) ({
    stablehlo.return %b {inner = "text"} : tensor<2xf32>
  }, {
    "stablehlo.return"(%b) {generic} : (tensor<2xf32>) -> ()
  }) : (tensor<i1>) -> tensor<2xf32>
  return {outer = [1, 2]} %0, %a : tensor<2xf32>, tensor<i1>
}
