#include "common/base/base64.h"

#include <gtest/gtest.h>

namespace mgpu {
namespace {

TEST(Base64, EncodesAndDecodesTheTestVectorsOfRfc4648) {
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, DecodesWhatItEncodes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
    bytes += static_cast<char>(255 - i);
  }
}

TEST(Base64, SkipsLineEnds) {
  EXPECT_EQ(decode_base64("Zm9v\r\nYmFy\n"), "foobar");
}

TEST(Base64, RefusesTextThatIsNotBase64) {
  for (const char* text : {"Z",
                           "Zg",
                           "Zg=",
                           "Zg===",
                           "=",
                           "====",
                           "Zg==Zg==",
                           "Zm9v=",
                           "Zm 9v",
                           "Zm9*",
                           "Zm-_",
                           "Z=g=",
                           "\xff\xff\xff\xff",
                           " Zm9v",
                           "Zm9v ",
                           "Zm9v\t",
                           "Zm9v-",
                           "Zm9v----",
                           " Zg==",
                           "Zg==    ",
                           "=Zm9",
                           "Zm=v"}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mgpu
