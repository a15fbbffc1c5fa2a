func.func @f(%a: tensor<i1>) -> tensor<i1> {
  %0 = "stablehlo.if"(%a) ({
    "stablehlo.return"(%a) : (tensor<i1>) -> tensor<i1>
  }, {
    stablehlo.return %a : tensor<i1>
  }) : (tensor<i1>) -> tensor<i1>
  return %0 : tensor<i1>
}
