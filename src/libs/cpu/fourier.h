// Discrete Fourier transforms of any length, in double, over the pool of parallel.h.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace thalweg::libs::cpu {

// The transform of one length: n = n₁ · n₂ … by Stockham's algorithm with one pass a factor; lengths with a large prime factor through a convolution of a power
// of two (Bluestein). Immutable after construction: threads may share one.
class FourierTransform {
 public:
  explicit FourierTransform(int64_t n);

  // Transforms `n` elements in place: x[k] = Σ x[j] · exp(∓2πi·jk/n), minus for forward; inverse divides by n. `scratch` is the caller's, kept between calls.
  void run(std::complex<double>* x, bool inverse, std::vector<std::complex<double>>& scratch) const;
  int64_t length() const { return n_; }

 private:
  void forward(std::complex<double>* x, std::vector<std::complex<double>>& scratch) const;
  void passes(std::complex<double>* x, std::complex<double>* spare) const;

  int64_t n_;
  std::vector<int64_t> factors_;
  std::vector<std::complex<double>> roots_;           // exp(-2πi·k/n) of the length that the passes work on
  std::vector<std::complex<double>> chirp_, filter_;  // of the convolution; empty when n factors
  std::vector<FourierTransform> inner_;               // the power of two behind it: none or one
};

// What StableHLO's fft does.
enum class Fourier : uint8_t { Forward, Inverse, RealForward, RealInverse };

// The transform over the last `axes` dims of a dense row-major tensor of shape `dims` (the input's); `length` is the last one's in the time domain. Elements
// are float when not `wide`, else double; complex ones are pairs. Input and output do not overlap.
void fourier(Fourier kind, bool wide, const std::vector<int64_t>& dims, int64_t axes, int64_t length, const void* in, void* out);

}  // namespace thalweg::libs::cpu
