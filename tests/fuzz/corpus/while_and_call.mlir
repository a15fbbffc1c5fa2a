func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
    %0:2 = stablehlo.while(%i = %n, %acc = %x) : tensor<i32>, tensor<f32> attributes {mhlo.trip = 3 : i32}
     cond { %c = stablehlo.constant dense<0> : tensor<i32> %p = stablehlo.compare  GT, %i, %c,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %p : tensor<i1> }
     do { %c = stablehlo.constant dense<1> : tensor<i32> %d = stablehlo.subtract %i, %c : tensor<i32> %e = func.call @g(%acc) : (tensor<f32>) -> tensor<f32> stablehlo.return %d, %e : tensor<i32>, tensor<f32> }
    return %0#0, %0#1 : tensor<i32>, tensor<f32>
  }
  func.func private @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
