// Feeds a config.toml to the reader of the settings of NVIDIA's container toolkit.
//
// Properties: an error is one short sentence; a setting that is not the default is in the text.
#include "plugin/node/toolkit_config.h"

#include <string_view>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(toolkit_config) {
  const auto parsed = plugin::parse_toolkit_config(input);
  if (!parsed) {
    expect_sentence(parsed.error().message);
    return;
  }
  const auto has = [&](std::string_view text) { return input.find(text) != input.npos; };
  expect(parsed->by_environment || has("accept-nvidia-visible-devices-envvar-when-unprivileged"),
         "a setting is in the text");
  expect(!parsed->by_mounts || has("accept-nvidia-visible-devices-as-volume-mounts"),
         "a setting is in the text");
}

}  // namespace mgpu::fuzz
