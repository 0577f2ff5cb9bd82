// Secrets: one of two writers succeeds, and a merge patch of one key keeps the others.
#include <string>

#include "test/common/kube/conformance/server_under_test.h"

namespace mgpu::test {
namespace {

MGPU_CONFORMANCE_SUITE(SecretConformance);

// "YQ==" is "a", "Yg==" is "b".
std::string secret_json(const std::string& name, const Json& data) {
  return Json{{"apiVersion", "v1"},
              {"kind", "Secret"},
              {"metadata", {{"name", name}, {"labels", {{"kept", "yes"}}}}},
              {"data", data}}
      .dump();
}

std::string secrets(const std::string& name_space) {
  return "/api/v1/namespaces/" + name_space + "/secrets";
}

Json patch_of(const Json& data, const std::string& version) {
  return {{"metadata", {{"resourceVersion", version}}}, {"data", data}};
}

TEST_P(SecretConformance, IsCreatedOnceAsOpaque) {
  const std::string secret = name("secret");
  EXPECT_EQ(get(secrets(name_space()) + "/" + secret).code, 404);
  const Json created = create(secrets(name_space()), secret_json(secret, {{"key", "YQ=="}}));
  EXPECT_EQ(created["data"]["key"], "YQ==");
  EXPECT_EQ(created["type"], "Opaque");
  const Answer again = post(secrets(name_space()), secret_json(secret, {{"key", "Yg=="}}));
  EXPECT_EQ(again.code, 409) << again.text;
  EXPECT_EQ(again.body["reason"], "AlreadyExists");
  EXPECT_EQ(get(secrets(name_space()) + "/" + secret).body["data"]["key"], "YQ==");
}

TEST_P(SecretConformance, APatchOfOneKeyKeepsTheOthersAndTheLabels) {
  const std::string secret = name("secret");
  const std::string path = secrets(name_space()) + "/" + secret;
  const Json created =
      create(secrets(name_space()), secret_json(secret, {{"one", "YQ=="}, {"other", "YQ=="}}));
  const Answer patched = merge(path, patch_of({{"one", "Yg=="}}, version_of(created)));
  EXPECT_EQ(patched.code, 200) << patched.text;
  const Json read = get(path).body;
  EXPECT_EQ(read["data"], Json({{"one", "Yg=="}, {"other", "YQ=="}}));
  EXPECT_EQ(read["metadata"]["labels"]["kept"], "yes");
}

TEST_P(SecretConformance, TheSecondOfTwoPatchesWithTheSameVersionIsRefused) {
  const std::string secret = name("secret");
  const std::string path = secrets(name_space()) + "/" + secret;
  const Json created = create(secrets(name_space()), secret_json(secret, {{"key", "YQ=="}}));
  EXPECT_EQ(merge(path, patch_of({{"key", "Yg=="}}, version_of(created))).code, 200);
  const Answer second = merge(path, patch_of({{"key", "Yw=="}}, version_of(created)));
  EXPECT_EQ(second.code, 409) << second.text;
  EXPECT_EQ(second.body["reason"], "Conflict");
  EXPECT_EQ(get(path).body["data"]["key"], "Yg==");
}

TEST_P(SecretConformance, KeepsItsType) {
  const std::string secret = name("secret");
  create(secrets(name_space()), secret_json(secret, {{"key", "YQ=="}}));
  const Answer patched =
      merge(secrets(name_space()) + "/" + secret, {{"type", "kubernetes.io/tls"}});
  EXPECT_EQ(patched.code, 422) << patched.text;
}

TEST_P(SecretConformance, RefusesDataThatIsNotBase64AndKeysThatAreNotNames) {
  const Answer bytes = post(secrets(name_space()), secret_json(name("secret"), {{"key", "*"}}));
  EXPECT_EQ(bytes.code, 400) << bytes.text;
  const Answer key = post(secrets(name_space()), secret_json(name("secret"), {{"a/b", "YQ=="}}));
  EXPECT_EQ(key.code, 422) << key.text;
}

}  // namespace
}  // namespace mgpu::test
