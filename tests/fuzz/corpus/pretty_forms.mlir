func.func @main(%p: tensor<i1>, %x: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2xf32> {
    %0 = "stablehlo.if"(%p) ({ stablehlo.return %x : tensor<2xf32> }, { %n = stablehlo.negate %x : tensor<2xf32> stablehlo.return %n : tensor<2xf32> }) : (tensor<i1>) -> tensor<2xf32>
    %1 = stablehlo.select %p, %0, %x : tensor<i1>, tensor<2xf32>
    %2 = stablehlo.complex %1, %x : tensor<2xcomplex<f32>>
    %3 = stablehlo.real %2 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %4 = stablehlo.tuple %3, %p : tuple<tensor<2xf32>, tensor<i1>>
    %5 = stablehlo.get_tuple_element %4[0] : (tuple<tensor<2xf32>, tensor<i1>>) -> tensor<2xf32>
    %6 = stablehlo.after_all %t, %t : !stablehlo.token
    %7 = stablehlo.replica_id : tensor<ui32>
    %8:2 = stablehlo.optimization_barrier %5, %p : tensor<2xf32>, tensor<i1>
    %9 = stablehlo.reduce_precision %8#0, format = e8m10 : tensor<2xf32>
    %10 = stablehlo.custom_call @target(%9) {backend_config = {a = [1, 2], b = 1.5 : f32, c = dense<[1.0, 2.0]> : tensor<2xf32>}, api_version = 4 : i32, called_computations = [@g], operand_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xf32>) -> tensor<2xf32>
    %11 = stablehlo.composite "chlo.erf" %10 {composite_attributes = {}, decomposition = @g, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
    %12 = chlo.erf %11 : tensor<2xf32> -> tensor<2xf32>
    %13:2 = chlo.top_k(%12, k = 1) : tensor<2xf32> -> (tensor<1xf32>, tensor<1xi32>)
    %14 = stablehlo.fft %2, type = FFT, length = [2] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    %15 = stablehlo.slice %x [0:2:2] : (tensor<2xf32>) -> tensor<1xf32>
    %16 = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<2xf32>
    return %12 : tensor<2xf32>
  }
  func.func private @g(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
