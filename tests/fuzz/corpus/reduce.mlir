func.func @main(%x: tensor<4x5xf32>, %i: tensor<f32>) -> tensor<4xf32> {
    %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = "stablehlo.reduce"(%x, %i) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %m = stablehlo.maximum %a, %b : tensor<f32> stablehlo.return %m : tensor<f32> }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %2:2 = stablehlo.reduce(%x init: %i), (%x init: %i) across dimensions = [1] : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
      reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>) { stablehlo.return %d, %c : tensor<f32>, tensor<f32> }
    %3 = stablehlo.add %0, %2#1 {mhlo.note = "a\"b\0A", x.unit} : tensor<4xf32>
    return %3 : tensor<4xf32>
  }
