// Package cluster tests mgpu-extender with a real etcd, kube-apiserver and kube-scheduler, and with Node
// objects without a kubelet. Tests whose names begin with TestNode test mgpu-device-plugin with one real
// kubelet, containerd and runc.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Tokens of the programs. The token file maps each token to a user and groups.
const (
	adminToken     = "admin-token"
	schedulerToken = "scheduler-token"
	extenderToken  = "extender-token"
	nobodyToken    = "nobody-token"
	kubeletToken   = "kubelet-token"
	secondToken    = "second-kubelet-token"
	pluginToken    = "plugin-token" // bound to no node, so it may only read
	nodeToken      = "plugin-of-the-node-token"
	tokenLines     = adminToken + `,admin,1,"system:masters"
` + schedulerToken + `,system:kube-scheduler,2
` + extenderToken + `,system:serviceaccount:kube-system:mgpu-extender,3,"system:serviceaccounts,system:serviceaccounts:kube-system"
` + nobodyToken + `,nobody,4,"system:serviceaccounts"
` + kubeletToken + `,system:node:` + nodeName + `,5,"system:nodes"
` + pluginToken + `,system:serviceaccount:kube-system:mgpu-device-plugin,6,"system:serviceaccounts,system:serviceaccounts:kube-system"
` + secondToken + `,system:node:` + secondName + `,10,"system:nodes"
` + nodeToken + `,mgpu-device-plugin:` + nodeName + `,9,"mgpu-device-plugins"
`
)

// Users that may read metrics or inspection, once a test has bound them to a role.
const (
	metricsToken    = "metrics-token"
	metricsUser     = "metrics-reader"
	inspectionToken = "inspection-token"
	inspectionUser  = "inspection-reader"
	readerLines     = metricsToken + `,` + metricsUser + `,7
` + inspectionToken + `,` + inspectionUser + `,8
`
)

// ControlPlane is etcd and kube-apiserver. All tests share it.
type ControlPlane struct {
	full          *FullCluster // nil: without controllers, service accounts and Services
	folder        string
	binaries      string // folder with etcd, kube-apiserver, kube-scheduler and kubelet
	minor         int    // version of them, as 37 for 1.37
	etcdPort      int
	etcdPeerPort  int
	apiServerPort int
	etcd          *Process
	apiServer     *Process
	authority     *Authority
	servingPair   KeyPair
	admin         kubernetes.Interface
	history       *clientv3.Client // etcd, which has every change
}

// startControlPlane starts the control plane and waits until the API server is ready. `components` is
// the program of the folder components.
func startControlPlane(components, folder string, full *FullCluster) (*ControlPlane, error) {
	plane := &ControlPlane{folder: folder, binaries: filepath.Join(folder, "bin"), full: full}
	if err := plane.prepare(components); err != nil {
		return plane, err
	}
	if err := plane.startEtcd(); err != nil {
		return plane, err
	}
	if err := plane.startAPIServer(); err != nil {
		return plane, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		return plane, err
	}
	config.QPS, config.Burst = 2000, 2000
	config.ContentType = runtime.ContentTypeProtobuf
	if plane.admin, err = kubernetes.NewForConfig(config); err != nil {
		return plane, err
	}
	if err := plane.waitReady(5 * time.Minute); err != nil {
		return plane, err
	}
	if full != nil {
		if err := full.startControllers(plane); err != nil {
			return plane, err
		}
	}
	return plane, plane.connectHistory()
}

func (c *ControlPlane) prepare(components string) error {
	if err := os.MkdirAll(c.binaries, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet",
		"kube-proxy", "kubectl", "kubeadm"} {
		if err := os.Symlink(components, filepath.Join(c.binaries, name)); err != nil {
			return err
		}
	}
	for _, port := range []*int{&c.etcdPort, &c.etcdPeerPort, &c.apiServerPort} {
		free, err := freePort()
		if err != nil {
			return err
		}
		*port = free
	}
	var err error
	if c.minor, err = minorOf(filepath.Join(c.binaries, "kube-apiserver")); err != nil {
		return err
	}
	if c.authority, err = newAuthority(filepath.Join(c.folder, "pki"), "mgpu-test-ca"); err != nil {
		return err
	}
	if c.servingPair, err = c.authority.issueUntil(time.Now().Add(24*time.Hour), "kube-apiserver", c.full.addresses()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.folder, "tokens.csv"), []byte(tokenLines+readerLines), 0o600)
}

func (c *ControlPlane) startEtcd() error {
	client := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPeerPort)
	var err error
	c.etcd, err = startProcess("etcd", filepath.Join(c.folder, "etcd.log"), filepath.Join(c.binaries, "etcd"),
		"--data-dir", filepath.Join(c.folder, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer)
	return err
}

// startAPIServer starts the API server. After a kill it has the same port and etcd as before.
func (c *ControlPlane) startAPIServer() error {
	var err error
	c.apiServer, err = c.startAPIServerOn(c.apiServerPort, "kube-apiserver")
	return err
}

// startAPIServerOn starts an API server of the etcd of this control plane.
func (c *ControlPlane) startAPIServerOn(port int, name string) (*Process, error) {
	pair := c.servingPair
	flags := []string{"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24",
		"--disable-admission-plugins", "ServiceAccount",
		// PodGroups, which a kube-scheduler without these gates ignores.
		"--feature-gates", c.groupGates(), "--runtime-config", c.groupVersion() + "=true"}
	if c.full != nil {
		flags = c.full.apiServerFlags()
	}
	return startProcess(name, filepath.Join(c.folder, name+".log"),
		filepath.Join(c.binaries, "kube-apiserver"), append([]string{
			"--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort),
			// Without compaction, because the history is replayed at the end of each test.
			"--etcd-compaction-interval", "0",
			"--secure-port", fmt.Sprint(port),
			"--tls-cert-file", pair.certificate, "--tls-private-key-file", pair.key,
			"--cert-dir", filepath.Join(c.folder, "pki"),
			"--token-auth-file", filepath.Join(c.folder, "tokens.csv"),
			"--authorization-mode", "RBAC,Node",
			"--service-account-key-file", pair.key, "--service-account-signing-key-file", pair.key,
			"--service-account-issuer", "https://mgpu.test"}, flags...)...)
}

func (c *ControlPlane) waitReady(timeout time.Duration) error {
	err := poll(timeout, "kube-apiserver to be ready", func() (bool, string) {
		if !c.apiServer.running() {
			return true, ""
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		answer, err := c.admin.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err != nil {
			return false, err.Error()
		}
		_, err = c.admin.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err == nil, string(answer)
	})
	if !c.apiServer.running() {
		return fmt.Errorf("kube-apiserver ended: %s", c.apiServer.logTail(3))
	}
	return err
}

func (c *ControlPlane) connectHistory() error {
	var err error
	c.history, err = clientv3.New(clientv3.Config{
		Endpoints:   []string{fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort)},
		DialTimeout: 10 * time.Second, MaxCallRecvMsgSize: 64 << 20,
	})
	return err
}

// groupGates returns the feature gates of PodGroups. Programs end at the name of a gate that they do not have.
func (c *ControlPlane) groupGates() string {
	if c.minor >= groupsAreBeta {
		return "GenericWorkload=true"
	}
	return "GenericWorkload=true,GangScheduling=true"
}

// groupVersion returns the API of PodGroups, which is off by default.
func (c *ControlPlane) groupVersion() string {
	if c.minor >= groupsAreBeta {
		return "scheduling.k8s.io/v1beta1"
	}
	return "scheduling.k8s.io/v1alpha2"
}

// version returns the version of the components, as in v1.36.3.
func (c *ControlPlane) version(t testing.TB) string {
	t.Helper()
	version, err := c.admin.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return version.GitVersion
}

func (c *ControlPlane) serverURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.apiServerPort)
}

// kubeconfig returns the path of a kubeconfig for the token.
func (c *ControlPlane) kubeconfig(token string) string {
	return c.kubeconfigAt(filepath.Join(c.folder, token+".kubeconfig"), token)
}

// kubeconfigAt writes a kubeconfig for the token, and returns its path.
func (c *ControlPlane) kubeconfigAt(path, token string) string {
	return c.kubeconfigOf(path, c.serverURL(), token)
}

// kubeconfigOf writes a kubeconfig for another address of the API server, and returns its path.
func (c *ControlPlane) kubeconfigOf(path, server, token string) string {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{
		Server:               server,
		CertificateAuthority: c.authority.file(),
	}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	// A test that runs beside this one may have it read.
	part, err := os.CreateTemp(filepath.Dir(path), "kubeconfig-*")
	if err != nil {
		panic(err)
	}
	_ = part.Close()
	if err := errors.Join(clientcmd.WriteToFile(*config, part.Name()), os.Rename(part.Name(), path)); err != nil {
		panic(err)
	}
	return path
}

// clientAs returns a client with the rights of the token.
func (c *ControlPlane) clientAs(token string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host:            c.serverURL(),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.authority.file()},
	})
}

// createNamespace creates a namespace and waits until pods can be created in it.
func (c *ControlPlane) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil || c.full == nil {
		return err
	}
	return poll(3*time.Minute, "the service account of namespace "+name, func() (bool, string) {
		_, err := c.admin.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// stop stops all processes of the control plane.
func (c *ControlPlane) stop() {
	if c.history != nil {
		_ = c.history.Close()
	}
	c.full.stop()
	for _, process := range []*Process{c.apiServer, c.etcd} {
		if process != nil {
			process.Kill()
		}
	}
}
