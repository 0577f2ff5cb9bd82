// Standard base64 (RFC 4648, section 4), as in the checkpoint of kubelet.
#pragma once

#include <openssl/evp.h>

#include <string>
#include <string_view>

namespace mgpu::test {

inline std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  // It also writes the terminating zero byte of the string.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

}  // namespace mgpu::test
