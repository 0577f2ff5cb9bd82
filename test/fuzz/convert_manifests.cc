// Feeds manifests to the conversion of requests in other vocabularies.
//
// Properties: a file with a refusal is not changed; a converted file is converted no further; an
// error, a refusal and a change is one short sentence.
#include "extender/kubectl/convert/manifests.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

kubectl::convert::ConvertOptions fuzzed_options() {
  return {.contract = *Contract::for_domain(kDefaultResourceDomain),
          .hami_core = 10,
          .hami_card_memory_mib = 16000,
          .aliyun_core = 10};
}

}  // namespace

MGPU_FUZZER(convert_manifests) {
  const std::string text(input);
  const auto options = fuzzed_options();
  const auto converted = kubectl::convert::convert_manifests(text, options);
  if (!converted) return expect_sentence(converted.error().message);
  if (!converted->refusals.empty() || converted->changes.empty()) {
    return expect(converted->text == text, "a file without changes is printed as it is");
  }
  const auto again = kubectl::convert::convert_manifests(converted->text, options);
  expect(again.has_value(), "a converted file can be read");
  expect(again->changes.empty() && again->refusals.empty(),
         "a converted file has no such requests");
}

}  // namespace mgpu::fuzz
