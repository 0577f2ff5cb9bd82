// Feeds a kubeconfig to its reader, and what it says about the server and credentials to theirs.
//
// Properties: an error is one short sentence that names the file; a configuration has an HTTP
// server, and not two kinds of credentials; a credential plugin gets JSON.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "common/base/files.h"
#include "common/kube/config/config.h"
#include "common/kube/config/exec_credential.h"
#include "common/kube/curl/curl_transfer.h"
#include "common/kube/objects/json_value.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : file_(memfd_create("kubeconfig", MFD_CLOEXEC)) {
    const auto written = ::write(file_.number(), text.data(), text.size());
    expect(written == static_cast<ssize_t>(text.size()), "a file in memory takes the input");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.number()); }

 private:
  UniqueFd file_;
};

void expect_config(kube::Config config) {
  const bool http = config.server.starts_with("https://") || config.server.starts_with("http://");
  expect(http, "a server is a URL");
  expect(config.username.empty() || (config.token.empty() && config.token_file.empty()),
         "a token or a username");
  expect(config.client_certificate.empty() == config.client_key.empty(), "a certificate has a key");
  if (config.exec) {
    expect(!config.exec->command.empty(), "a plugin has a command");
    expect(config.token.empty() && config.username.empty() && config.client_certificate.empty(),
           "a plugin is the only credential");
    const std::string info = kube::exec_info(config, config.ca.pem, false);
    bool is_object = false;
    const auto read = kube::read_json(info, [&](kube::JsonValue& root) {
      root.members([&](std::string_view name, kube::JsonValue&) {
        is_object = is_object || name == "spec";
      });
    });
    expect(read.has_value() && is_object, "a plugin gets one JSON object");
  }
  const auto endpoint = kube::endpoint_of(config);
  if (!endpoint) expect_sentence(endpoint.error().message);
  for (kube::PemSource* source : {&config.ca, &config.client_certificate, &config.client_key}) {
    expect(source->pem.empty() || source->file.empty(), "a certificate is text or a file");
    // Files of this machine are not read.
    if (!source->file.empty()) return;
  }
  const auto checked = kube::check_credentials(config);
  if (!checked) expect_sentence(checked.error().message);
}

}  // namespace

MGPU_FUZZER(kubeconfig) {
  const MemoryFile file(input);
  for (const char* context : {"", "admin"}) {
    const auto config = kube::load_kubeconfig(file.path(), context);
    if (config) {
      expect_config(*config);
    } else {
      expect_sentence(config.error().message);
      expect(config.error().message.starts_with("kubeconfig"), "an error names the file");
    }
  }
}

}  // namespace mgpu::fuzz
