// Certificates for TLS tests, created by the openssl program in a temporary folder.
#pragma once

#include <chrono>
#include <string>

namespace mgpu::test {

struct CertificateFiles {
  std::string certificate;
  std::string key;
};

class Certificates {
 public:
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  // A certificate authority (ECDSA P-256). Names are also used as file names.
  CertificateFiles authority(const std::string& name) const;
  // A server certificate for 127.0.0.1, which is also a client certificate.
  CertificateFiles issue(const std::string& name, const CertificateFiles& authority) const;
  // Signs the certificate again, so that it expires after this time.
  void expire_after(std::chrono::seconds time, const CertificateFiles& files,
                    const CertificateFiles& authority) const;
  // The same key, encrypted with a passphrase.
  std::string encrypted_key(const CertificateFiles& files) const;
  // Creates a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const;
  static void copy(const std::string& from, const std::string& to);

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void run(const std::string& arguments) const;

  std::string folder_;
};

}  // namespace mgpu::test
