package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Minor versions of Kubernetes 1 from which it has what the tests use.
const (
	kubeletReadsEndpoint    = 27 // containerRuntimeEndpoint in its configuration
	kubeletHasSidecars      = 29
	kubeletHasPodLogsDir    = 30
	kubeletHasFailCgroupV1  = 31
	kubeletHasShortBackoffs = 32 // crashLoopBackOff
	groupsAreBeta           = 37 // PodGroups need one gate
)

// Old kubelets write the logs of containers here.
const podLogsOfOldKubelets = "/var/log/pods"

// kubeletProgram returns the kubelet of the node: that of MGPU_KUBELET_BINARY, or that of the components.
func (c *ControlPlane) kubeletProgram() string {
	if program := os.Getenv("MGPU_KUBELET_BINARY"); program != "" {
		return program
	}
	return filepath.Join(c.binaries, "kubelet")
}

// minorOf returns the minor version of a program of Kubernetes, as 36 for v1.36.3.
func minorOf(program string) (int, error) {
	said, err := runTool(program, "--version")
	if err != nil {
		return 0, err
	}
	var major, minor int
	if _, err := fmt.Sscanf(said, "Kubernetes v%d.%d.", &major, &minor); err != nil || major != 1 {
		return 0, fmt.Errorf("%s --version prints %q, want Kubernetes v1.x.y", program, said)
	}
	return minor, nil
}

// Fields that kubelet has from a minor version on.
var newerKubeletFields = []struct {
	since int
	text  string
}{
	{kubeletReadsEndpoint, "containerRuntimeEndpoint: unix://{folder}/containerd.sock"},
	{kubeletHasPodLogsDir, "podLogsDir: {folder}/logs"},
	{kubeletHasFailCgroupV1, "failCgroupV1: false"},
	{kubeletHasShortBackoffs, "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n" +
		"featureGates: {KubeletCrashLoopBackOffMax: true}"},
}

// kubeletConfigOf returns the configuration of a kubelet of this minor version.
func kubeletConfigOf(minor int) string {
	lines := []string{kubeletConfig}
	for _, field := range newerKubeletFields {
		if minor >= field.since {
			lines = append(lines, field.text+"\n")
		}
	}
	return strings.Join(lines, "")
}

// kubeletFlags returns the flags for what the configuration of an old kubelet cannot say.
func (n *Node) kubeletFlags() []string {
	if n.minor >= kubeletReadsEndpoint {
		return nil
	}
	return []string{"--container-runtime-endpoint", "unix://" + n.containerdSocket()}
}

// podLogs returns the folder in which kubelet has the logs of containers.
func (n *Node) podLogs() string {
	if n.minor < kubeletHasPodLogsDir {
		return podLogsOfOldKubelets
	}
	return n.path("logs")
}
