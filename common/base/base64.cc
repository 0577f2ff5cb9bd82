#include "common/base/base64.h"

#include <openssl/evp.h>

namespace mgpu {

std::optional<std::string> decode_base64(std::string_view text) {
  std::string digits(text);
  std::erase_if(digits, [](char c) { return c == '\n' || c == '\r'; });
  const std::size_t unpadded = digits.find_last_not_of('=') + 1;
  const std::size_t padding = digits.size() - unpadded;
  // OpenSSL would skip blanks and '-' at the ends, and read a '=' in the middle as a zero.
  if (padding > 2 || digits.find_first_of("= \t-") < unpadded) return std::nullopt;
  std::string bytes(digits.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(digits.data()),
                                     static_cast<int>(digits.size()));
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string digits((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL writes a zero at the end
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(digits.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  digits.resize(static_cast<std::size_t>(length));
  return digits;
}

}  // namespace mgpu
