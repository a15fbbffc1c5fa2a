#lnc= dense<true>:tensor<111111111162xi1>
func.func @main() {
  return
}
