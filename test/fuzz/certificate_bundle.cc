// Feeds the members of the Secret with the extender's certificates to their examination. Each byte
// 0xff ends a member; the rest of them are those of a valid bundle.
//
// Properties: a problem is a short sentence without a key; nothing is renewed by a broken
// authority; what was renewed is not renewed again.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "extender/certificates/bundle.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

namespace ext = mgpu::extender;

constexpr std::chrono::sys_seconds kNow{std::chrono::seconds(1'767'323'045)};

const ext::ServerNames& names() {
  static const ext::ServerNames all = {"10.96.0.20", "mgpu-extender.kube-system.svc"};
  return all;
}

// The input with "@1" to "@6" in place of the members of a valid bundle.
ext::CertificateBundle bundle_in(std::string_view input) {
  static const kube::StringMap valid = data_of(ext::new_bundle(names(), kNow));
  kube::StringMap data = valid;
  for (const char* key : {"ca.crt", "ca.key", "tls.crt", "tls.key", "client.crt", "client.key"}) {
    if (input.empty()) break;
    const std::size_t end = std::min(input.find('\xff'), input.size());
    const std::string_view text = input.substr(0, end);
    const bool copied = text.size() == 2 && text[0] == '@' && text[1] >= '1' && text[1] <= '6';
    if (copied) {
      auto at = valid.begin();
      std::advance(at, text[1] - '1');
      data[key] = at->second;
    } else {
      data[key] = text;
    }
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return ext::bundle_of(data);
}

}  // namespace

MGPU_FUZZER(certificate_bundle) {
  const ext::CertificateBundle bundle = bundle_in(input);
  const ext::Examination found = examine(bundle, names(), kNow);
  for (const std::string& text : {found.problem, found.renew_server, found.renew_client}) {
    expect(text.find("PRIVATE") == std::string::npos, "no sentence has a key");
  }
  expect(!found.empty || !found.renewals(), "an empty bundle is made and not renewed");
  if (!found.renewals()) return;
  expect(!found.problem.starts_with("ca."), "a broken authority renews nothing");
  const auto fresh = renewed(bundle, found, names(), kNow);
  if (!fresh) return expect_sentence(fresh.error().message);
  const ext::Examination again = examine(*fresh, names(), kNow);
  expect(again.usable && !again.renewals(), "what was renewed needs nothing");
  expect(fresh->authority.certificate == bundle.authority.certificate, "the authority is kept");
}

}  // namespace mgpu::fuzz
