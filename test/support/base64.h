// Standard base64 (RFC 4648, section 4), as kubelet writes it into its checkpoint.
#pragma once

#include <openssl/evp.h>

#include <string>
#include <string_view>

namespace mgpu::test {

inline std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  // It writes a zero byte behind the text, where std::string has one.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

}  // namespace mgpu::test
