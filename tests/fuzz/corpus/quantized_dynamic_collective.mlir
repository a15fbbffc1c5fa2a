module { sdy.mesh @mesh = <["x"=2]>
  func.func @main(%q: tensor<4x!quant.uniform<i8:f32, 3.400000e-02:16>>, %s: tensor<1xi32>) -> tensor<?xf32> {
    %0 = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 3.400000e-02:16>>) -> tensor<4xf32>
    %1 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %2 = stablehlo.dynamic_reshape %0, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
    %3 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %m = stablehlo.add %a, %b : tensor<f32> stablehlo.return %m : tensor<f32> }) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<?xf32>
  } }
