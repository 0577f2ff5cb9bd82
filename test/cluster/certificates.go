package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority is a certificate authority with its files in one folder.
type Authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// KeyPair has the paths of a certificate and its key.
type KeyPair struct{ certificate, key string }

func newAuthority(folder, name string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	authority := &Authority{folder: folder, certificate: certificate, key: key, serial: 1}
	return authority, writePEM(authority.file(), "CERTIFICATE", der)
}

func (a *Authority) file() string { return filepath.Join(a.folder, "ca.crt") }

// issue makes a certificate for servers and clients on loopback.
func (a *Authority) issue(name string, dnsNames ...string) (KeyPair, error) {
	return a.issueUntil(time.Now().Add(24*time.Hour), name, nil, dnsNames...)
}

// issueUntil makes a certificate that is also for these addresses. It replaces the files of an earlier
// certificate of this name.
func (a *Authority) issueUntil(end time.Time, name string, addresses []net.IP, dnsNames ...string) (KeyPair, error) {
	pair := KeyPair{filepath.Join(a.folder, name+".crt"), filepath.Join(a.folder, name+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    append(dnsNames, "localhost"), IPAddresses: append(addresses, net.IPv4(127, 0, 0, 1)),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair, err
	}
	if err := writePEM(pair.certificate, "CERTIFICATE", der); err != nil {
		return pair, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair, err
	}
	return pair, writePEM(pair.key, "EC PRIVATE KEY", keyDER)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}
