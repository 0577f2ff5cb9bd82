// Feeds what a credential plugin prints to its reader.
//
// Properties: a credential is a token, a certificate with its key, or both, and the token fits into
// a header; an error is a short sentence that repeats no part of a token.
#include "common/kube/config/exec_credential.h"

#include <string>
#include <string_view>

#include "common/base/rfc3339.h"
#include "common/kube/config/token_source.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(exec_credential) {
  const auto time = read_rfc3339(input);
  expect(!time || input.size() >= std::string_view("2026-01-02T03:04:05Z").size(), "a whole time");
  const auto read = kube::read_exec_credential(input, "client.authentication.k8s.io/v1");
  if (!read) {
    expect_sentence(read.error().message);
    expect(read.error().message.find("secret-token") == std::string::npos, "no token is repeated");
    return;
  }
  expect(!read->token.empty() || !read->certificate.empty(), "there is a credential");
  expect(kube::is_bearer_token(read->token), "the token fits into a header");
  expect(read->certificate.empty() == read->key.empty(), "a certificate has a key");
}

}  // namespace mgpu::fuzz
