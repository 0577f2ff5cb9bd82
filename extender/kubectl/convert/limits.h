// Limits of kubectl mgpu convert, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::kubectl::convert {

// The same in the policies. 64 cards of this many GiB are less than 2^63 MiB.
inline constexpr std::int64_t kForeignAmountMax = std::int64_t{1} << 30;

// The API server accepts objects of up to 3 MiB; a file may have several.
inline constexpr std::size_t kConvertBytesMax = std::size_t{16} << 20;
// Values of one file, with each alias counted as what it stands for.
inline constexpr std::size_t kYamlValuesMax = 200'000;
inline constexpr int kYamlDepthMax = 64;
inline constexpr int kDocumentsMax = 2'000;
// Sentences about pods that cannot be converted.
inline constexpr std::size_t kRefusalsMax = 100;

}  // namespace mgpu::kubectl::convert
