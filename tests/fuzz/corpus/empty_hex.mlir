func.func @-main() {
  %0 = stablehlo.constant dense<"0x01000000"> : tensor<0xi32>
 constant dense<true> : tensor<5xi1>
  %4 = stablehlo.constant dense<> : tensor<0x3xbf16>
stablehlo.constant {a.b = array<i64: 1, -2>} dense<-8> : tensor<i4>
  return
}
