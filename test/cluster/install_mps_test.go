package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// NVIDIA's MPS control program is a stand-in (test/gpu/mps_control.cc).

// installedWithMPS returns a release whose MPS daemons run in pods.
func installedWithMPS(t testing.TB) *Release {
	t.Helper()
	release := newRelease(t)
	release.useMPS(t)
	release.install(t)
	release.callExtender(t)
	release.waitOffered(t)
	return release
}

// useMPS sets the values for MPS.
func (r *Release) useMPS(t testing.TB) {
	t.Helper()
	control, err := os.ReadFile(mpsControlBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	path := r.plugin.path("nvidia-cuda-mps-control")
	if err := os.WriteFile(path, control, 0o755); err != nil {
		t.Fatal(err)
	}
	// The path of a socket has at most 107 bytes.
	run, err := os.MkdirTemp("/run", "mgpu-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	r.set("devicePlugin", "isolation", "mps")
	r.set("devicePlugin", "runDir", run)
	r.set("mps", "control", "/host"+path)
}

func (r *Release) set(part, name string, value any) { r.values[part].(map[string]any)[name] = value }

// runLimited creates a pod with a share, and waits until it runs with the limits of MPS.
func (w *NodeWorld) runLimited(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	return w.runLimitedWith(t, name, "ro", "nosuid", "nodev", "noexec")
}

// runLimitedWith is for a device plugin that mounts the pipe directory with other options.
func (w *NodeWorld) runLimitedWith(t testing.TB, name string, mountOptions ...string) *corev1.Pod {
	t.Helper()
	create(w.ctx, t, w.pod(name).share(30, 1024).runs())
	pod := w.waitRunning(t, name)
	view := w.node.viewOf(t, pod, "c0")
	environment := view.environment
	for variable, want := range map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/run/mgpu/mps",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M"} {
		if got := environment[variable]; got != want {
			t.Errorf("%s is %q, want %q", variable, got, want)
		}
	}
	for _, option := range mountOptions {
		if options := view.mounts["/run/mgpu/mps"]; !slices.Contains(strings.Split(options, ","), option) {
			t.Errorf("the pipe directory is mounted with %q, want %s", options, option)
		}
	}
	return pod
}

func TestInstallWithMPSLimitsContainers(t *testing.T) {
	installedWithMPS(t).runLimited(t, "share")
}

// The programs on the cards end with the pod of the daemons.
func TestInstallUpgradeKeepsTheDaemonsOfMPS(t *testing.T) {
	release := installedWithMPS(t)
	before := release.runLimited(t, "before")
	daemons := release.podsOf(t, "mps")
	pipes, _ := filepath.Glob(filepath.Join(release.values["devicePlugin"].(map[string]any)["runDir"].(string), "mps", "*", "calls"))
	if len(daemons) != 1 || len(pipes) != 2 {
		t.Fatalf("the pods of MPS are %v, and the daemons have written %v", daemons, pipes)
	}
	release.upgrade(t, "mps.logLevel=debug", "devicePlugin.logLevel=debug")
	release.waitOffered(t)
	if now := release.podsOf(t, "mps"); !slices.Equal(now, daemons) {
		t.Errorf("the pods of MPS were %v, and are %v", daemons, now)
	}
	release.checkUntouched(t, before)
	release.runLimited(t, "after")
}

func TestInstallReleaseOfTheDriverEndsTheDaemonsOfMPS(t *testing.T) {
	release := installedWithMPS(t)
	run := release.values["devicePlugin"].(map[string]any)["runDir"].(string)
	daemons := func() int {
		files, _ := filepath.Glob(filepath.Join(run, "mps", "*", "daemon"))
		running := 0
		for _, file := range files {
			var pid int
			text, _ := os.ReadFile(file)
			if _, err := fmt.Sscan(string(text), &pid); err == nil && syscall.Kill(pid, 0) == nil {
				running++
			}
		}
		return running
	}
	waitFor(t, podRunningLimit, "two daemons of MPS", func() (bool, string) {
		return daemons() == 2, fmt.Sprint(daemons(), " daemons run")
	})
	release.runOperations(t, "kubectl label node \"$NODE\" vke.volcengine.com/mgpu-release-driver=true")
	waitFor(t, podRunningLimit, "the end of the daemons of MPS", func() (bool, string) {
		return daemons() == 0, fmt.Sprint(daemons(), " daemons run")
	})
	release.runOperations(t, "kubectl label node \"$NODE\" vke.volcengine.com/mgpu-release-driver-")
	release.waitOffered(t)
	release.runLimited(t, "after")
}
