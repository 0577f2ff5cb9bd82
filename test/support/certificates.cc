#include "test/support/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"

namespace mgpu::test {

Certificates::Certificates() {
  std::string pattern = std::filesystem::temp_directory_path() / "mgpu-certificates-XXXXXX";
  MGPU_CHECK(mkdtemp(pattern.data()) != nullptr, "a temporary folder can be made");
  folder_ = pattern;
}

Certificates::~Certificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Certificates::run(const std::string& arguments) const {
  const std::string command = "openssl " + arguments + " >>" + path("openssl.log") + " 2>&1";
  MGPU_CHECK(std::system(command.c_str()) == 0, "openssl did what it was asked for");
}

CertificateFiles Certificates::authority(const std::string& name) const {
  const CertificateFiles files = {path(name + ".crt"), path(name + ".key")};
  run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=" + name +
      " -addext basicConstraints=critical,CA:TRUE -keyout " + files.key + " -out " +
      files.certificate);
  return files;
}

CertificateFiles Certificates::issue(const std::string& name,
                                     const CertificateFiles& authority) const {
  const CertificateFiles files = {path(name + ".crt"), path(name + ".key")};
  const std::string request = path(name + ".csr");
  const std::string extensions = file(name + ".ext",
                                      "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
                                      "extendedKeyUsage=serverAuth,clientAuth\n");
  run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name + " -keyout " +
      files.key + " -out " + request);
  run("x509 -req -in " + request + " -CA " + authority.certificate + " -CAkey " + authority.key +
      " -CAcreateserial -days 30 -extfile " + extensions + " -out " + files.certificate);
  return files;
}

// The program openssl counts in days.
void Certificates::expire_after(std::chrono::seconds time, const CertificateFiles& files,
                                const CertificateFiles& authority) const {
  BIO* const in = BIO_new_file(files.certificate.c_str(), "r");
  BIO* const key_in = BIO_new_file(authority.key.c_str(), "r");
  X509* const certificate = PEM_read_bio_X509(in, nullptr, nullptr, nullptr);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(key_in, nullptr, nullptr, nullptr);
  MGPU_CHECK(certificate != nullptr && key != nullptr, "the test's certificate can be read");
  X509_gmtime_adj(X509_getm_notAfter(certificate), static_cast<long>(time.count()));
  MGPU_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0, "the test's certificate can be signed");
  BIO_free(in);
  BIO_free(key_in);
  BIO* const out = BIO_new_file(files.certificate.c_str(), "w");
  PEM_write_bio_X509(out, certificate);
  BIO_free(out);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

std::string Certificates::encrypted_key(const CertificateFiles& files) const {
  const std::string encrypted = files.key + ".encrypted";
  run("ec -in " + files.key + " -aes256 -passout pass:secret -out " + encrypted);
  return encrypted;
}

std::string Certificates::file(const std::string& name, const std::string& text) const {
  std::ofstream(path(name + ".new")) << text;
  std::filesystem::rename(path(name + ".new"), path(name));
  return path(name);
}

void Certificates::copy(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to + ".new");
  std::filesystem::rename(to + ".new", to);
}

}  // namespace mgpu::test
