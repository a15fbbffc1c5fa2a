#loc1 = loc("x"("f.py":1:2))
module @m attributes {mhlo.numions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x?xf32> {jax.buffer_donor = true, mhlo.sh$$$$$$$$$$$$$$$$$$$$$$$$input_feature_dimension$$$$$$$$$arding = "{repliÿÿÿÿÿÿÿÿÿÿÿÿÿ//ÿÿÿÏÿÿÿÿÿÿÿated}"} loc("a"), %arg2: !stablehlo.to//
) -> (tensor<2x?xf32> {jax.result_info = ""}) {
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x?xf32> loc(#loc1)
    return %0 : tensor<2x?xf32> loc(#loc1)
  } loc(#loc1)
} loc(#loc1)
#loc2 = loc(unknown
) 