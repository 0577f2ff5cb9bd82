package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// extenderService is in the first sixteenth of the range, from which kube-apiserver does not choose addresses of other
// Services while the rest has free ones.
const (
	serviceRange     = "10.211.0.0/24"
	apiServerService = "10.211.0.1"
	extenderService  = "10.211.0.10"
)

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: {kubeconfig}}
clusterCIDR: {pods}
hostnameOverride: {node}
conntrack: {maxPerCore: 0}
# Pods on one bridge reach a Service only by the host.
iptables: {masqueradeAll: true, localhostNodePorts: false, {periods}}
healthzBindAddress: 127.0.0.1:{health}
metricsBindAddress: 127.0.0.1:{metrics}
`

// FullCluster is what a control plane has besides etcd and kube-apiserver in the stage install: controllers,
// service accounts, Services and a network of pods. All methods accept nil, for the other stages.
type FullCluster struct {
	address     net.IP // of this machine
	controllers *Process
	proxy       *Process
}

// fullCluster returns a full cluster for the stage install, and nil for the others.
func fullCluster() (*FullCluster, error) {
	if os.Getenv("MGPU_FULL_CLUSTER") == "" {
		return nil, nil
	}
	address, err := machineAddress()
	return &FullCluster{address: address}, err
}

// machineAddress returns an address of this machine that is not of the loopback network.
func machineAddress() (net.IP, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, one := range addresses {
		network, isNetwork := one.(*net.IPNet)
		if isNetwork && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.To4(), nil
		}
	}
	return nil, errors.New("a node needs a network interface with an IPv4 address besides loopback")
}

func (f *FullCluster) nodeAddress() string {
	if f == nil {
		return "127.0.0.1"
	}
	return f.address.String()
}

// addresses returns those in the certificate of kube-apiserver.
func (f *FullCluster) addresses() []net.IP {
	if f == nil {
		return nil
	}
	return []net.IP{f.address, net.ParseIP(apiServerService)}
}

func (f *FullCluster) apiServerFlags() []string {
	return []string{"--bind-address", "0.0.0.0", "--advertise-address", f.nodeAddress(), "--allow-privileged",
		"--kubelet-preferred-address-types", "InternalIP", "--service-cluster-ip-range", serviceRange}
}

// startControllers starts kube-controller-manager, and waits until namespaces get service accounts.
func (f *FullCluster) startControllers(plane *ControlPlane) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	f.controllers, err = startProcess("kube-controller-manager", filepath.Join(plane.folder, "controllers.log"),
		filepath.Join(plane.binaries, "kube-controller-manager"),
		"--kubeconfig", plane.kubeconfig(adminToken), "--leader-elect=false",
		"--service-account-private-key-file", plane.servingPair.key, "--root-ca-file", plane.authority.file(),
		"--kube-api-qps", "200", "--kube-api-burst", "400",
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port), "--cert-dir", filepath.Join(plane.folder, "pki"))
	if err != nil {
		return err
	}
	return poll(time.Minute, "the service account default of kube-system", func() (bool, string) {
		if !f.controllers.running() {
			return false, f.controllers.logTail(3)
		}
		_, err := plane.admin.CoreV1().ServiceAccounts("kube-system").Get(context.Background(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// proxyPeriods returns how soon kube-proxy follows changes: by default where times are measured, else sooner.
func proxyPeriods() string {
	if os.Getenv("MGPU_FAILOVER_RUNS") != "" {
		return "syncPeriod: 30s, minSyncPeriod: 1s"
	}
	return "syncPeriod: 10s, minSyncPeriod: 100ms"
}

// startProxy starts kube-proxy on the node. Does nothing where there are no Services.
func (f *FullCluster) startProxy(plane *ControlPlane) error {
	if f == nil {
		return nil
	}
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	path := filepath.Join(plane.folder, "kube-proxy.yaml")
	text := strings.NewReplacer("{kubeconfig}", plane.kubeconfig(adminToken), "{pods}", podRange, "{node}", nodeName,
		"{periods}", proxyPeriods(), "{health}", fmt.Sprint(ports[0]), "{metrics}", fmt.Sprint(ports[1])).Replace(proxyConfig)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	var err error
	f.proxy, err = startProcess("kube-proxy", filepath.Join(plane.folder, "kube-proxy.log"),
		filepath.Join(plane.binaries, "kube-proxy"), "--config", path)
	if err != nil {
		return err
	}
	return poll(time.Minute, "kube-apiserver to answer at its Service", func() (bool, string) {
		if !f.proxy.running() {
			return false, f.proxy.logTail(3)
		}
		connection, err := net.DialTimeout("tcp", apiServerService+":443", time.Second)
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
}

func (f *FullCluster) stop() {
	if f == nil {
		return
	}
	for _, process := range []*Process{f.proxy, f.controllers} {
		if process != nil {
			process.Kill()
		}
	}
}
