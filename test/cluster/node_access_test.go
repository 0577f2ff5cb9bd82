package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The handlers do not run anything here, so that NVIDIA's program is not needed.
const nvidiaContainerdConfig = `version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "{default}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = "{folder}/opt"
`

// containerdWith starts a containerd of its own, without a kubelet, and returns its socket.
func containerdWith(t *testing.T, defaultRuntime string) string {
	t.Helper()
	runtime := os.Getenv("MGPU_RUNTIME_FOLDER")
	if runtime == "" {
		t.Skip("MGPU_RUNTIME_FOLDER is not set; test/run.sh node builds containerd and sets it")
	}
	// Not t.TempDir(): with the name of the test, the path is too long for a socket.
	folder, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	one := &Node{plane: plane, folder: folder, runtime: runtime}
	fill := strings.NewReplacer("{folder}", one.folder, "{default}", defaultRuntime)
	if err := os.WriteFile(one.path("containerd.toml"), []byte(fill.Replace(nvidiaContainerdConfig)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if one.containerd != nil {
			one.containerd.Kill()
		}
	})
	if err := one.startContainerd(); err != nil {
		t.Fatal(err)
	}
	return one.containerdSocket()
}

// toolkitWith returns the root of a node with these settings of NVIDIA's container toolkit.
func toolkitWith(t *testing.T, settings string) string {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "etc", "nvidia-container-runtime")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestNodeReportsHandlersOfNvidiaInContainerd(t *testing.T) {
	world := newPluginWorld(t)
	token := world.podToken(t, world.own)
	const closed = "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n"
	for name, one := range map[string]struct{ defaultRuntime, toolkit, reason string }{
		"default":        {"nvidia", "", "DefaultRuntime"},
		"closed default": {"nvidia", closed, "OnlyMGPU"},
		"not default":    {"runc", "", "RuntimeClass"},
		"closed":         {"runc", closed, "OnlyMGPU"},
	} {
		t.Run(name, func(t *testing.T) {
			err := world.patch(plane.admin, world.own,
				`{"status":{"conditions":[{"type":"`+exclusiveCondition+`","$patch":"delete"}]}}`, "status")
			if err != nil {
				t.Fatal(err)
			}
			plugin := world.startPlugin(t, token, "--runtime-socket", containerdWith(t, one.defaultRuntime),
				"--node-root", toolkitWith(t, one.toolkit))
			// A containerd that has just started may not answer in time, and is asked again.
			var condition corev1.NodeCondition
			waitFor(t, 3*time.Minute, "a complete check", func() (bool, string) {
				condition = wholeCondition(world.node(t, world.own), exclusiveCondition)
				return condition.Type != "" && condition.Reason != "NotChecked", plugin.logText()
			})
			if condition.Reason != one.reason {
				t.Errorf("the condition is %+v, want %s", condition, one.reason)
			}
		})
	}
}
