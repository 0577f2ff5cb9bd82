// Certificates for tests of TLS, made by the openssl program in a folder that goes with the object.
#pragma once

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

  // A certificate authority (ECDSA P-256); names are file names too.
  CertificateFiles authority(const std::string& name) const;
  // Of that authority, for 127.0.0.1 and as a client.
  CertificateFiles issue(const std::string& name, const CertificateFiles& authority) const;
  // The same key, encrypted with a passphrase.
  std::string encrypted_key(const CertificateFiles& files) const;
  // A file with that text.
  std::string file(const std::string& name, const std::string& text) const;
  static void copy(const std::string& from, const std::string& to);

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void run(const std::string& arguments) const;

  std::string folder_;
};

}  // namespace mgpu::test
