func.func @main() {
  %0 = stablehlo.constant dense<"0x0100000002000000"> : tensor<2xi32>
  %1 = stablehlo.constant dense<[[1.5, -2.0e-3], [0x7FC00000, 4.0]]> : tensor<2x2xf32>
  %2 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f64>>
  %3 = stablehlo.constant dense<true> : tensor<7xi1>
  %4 = stablehlo.constant dense<> : tensor<0x3xbf16>
  %5 = stablehlo.constant {a.b = array<i64: 1, -2>} dense<-8> : tensor<i4>
  return
}
