// The entry point of libFuzzer. It runs the only fuzzer of the program.
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mgpu::fuzz::Fuzzer kFuzzer = mgpu::fuzz::fuzzers().begin()->second;
  kFuzzer({reinterpret_cast<const char*>(data), size});
  return 0;
}
