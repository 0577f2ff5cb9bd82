package cluster

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Version has the programs and the rights of one version of mgpu.
type Version struct {
	name     string
	extender string
	plugin   string
	mps      string
	deploy   string // its folder deploy
}

func thisVersion(t testing.TB) Version {
	t.Helper()
	return Version{name: "this", extender: extenderBinary(t), plugin: pluginBinary(t),
		mps: filepath.Join(filepath.Dir(pluginBinary(t)), "mgpu-mps"), deploy: deployPath()}
}

// previousVersion returns the version that the file previous-version names.
func previousVersion(t testing.TB) Version {
	t.Helper()
	return builtVersion(t, "previous", "MGPU_PREVIOUS_FOLDER")
}

// previousVersions returns also the version that the file previous-chart names.
func previousVersions(t testing.TB) []Version {
	t.Helper()
	return []Version{previousVersion(t), builtVersion(t, "previous-chart", "MGPU_PREVIOUS_CHART_FOLDER")}
}

func builtVersion(t testing.TB, name, variable string) Version {
	t.Helper()
	folder := os.Getenv(variable)
	if folder == "" {
		t.Skip(variable + " is not set; test/run.sh skew builds the version and sets it")
	}
	return Version{name: name, extender: filepath.Join(folder, "mgpu-extender"),
		plugin: filepath.Join(folder, "mgpu-device-plugin"), mps: filepath.Join(folder, "mgpu-mps"),
		deploy: filepath.Join(folder, "deploy")}
}

// SkewWorld is a world whose extender and device plugin may be of different versions.
type SkewWorld struct {
	*NodeWorld
	extender *Extender
	history  *History
	created  int
}

// newSkewWorld returns a world with the programs of these versions, and the rights of one.
func newSkewWorld(t testing.TB, extender, plugin, rights Version, cards []TestCard, flags ...string) *SkewWorld {
	t.Helper()
	applyRightsOf(t, rights)
	t.Cleanup(func() { applyRightsOf(t, thisVersion(t)) })
	world := &SkewWorld{extender: plane.extenderOn(t, "http", http.DefaultClient)}
	world.startExtender(t, extender)
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.NodeWorld = nodeWorldOn(t, cards, flags...)
	world.startPlugin(t, plugin)
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

// applyRightsOf applies the rights of a version, as users do. Those of versions before this one are in deploy/rbac.
func applyRightsOf(t testing.TB, version Version) {
	t.Helper()
	if version.deploy == deployPath() {
		if err := plane.applyRights(appliesRights); err != nil {
			t.Fatal(err)
		}
		return
	}
	command := exec.Command(filepath.Join(plane.binaries, "kubectl"), "--kubeconfig", plane.kubeconfig(adminToken), "apply",
		"--server-side", "--force-conflicts", "--filename", filepath.Join(version.deploy, "rbac"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, output)
	}
}

func (w *SkewWorld) startExtender(t testing.TB, version Version) {
	t.Helper()
	w.extender.binary = version.extender
	w.extender.start(t)
	w.extender.waitReady(t)
}

func (w *SkewWorld) startPlugin(t testing.TB, version Version) {
	t.Helper()
	w.plugin.binary = version.plugin
	w.plugin.startAgain(t)
	w.extender.waitCards(t, w.plugin.cards)
}

// replaceExtender ends the extender as Kubernetes does, and starts one of another version.
func (w *SkewWorld) replaceExtender(t testing.TB, version Version) {
	t.Helper()
	mustEnd(t, w.extender.process)
	w.startExtender(t, version)
	w.extender.waitCards(t, w.plugin.cards)
}

// replacePlugin ends the device plugin as Kubernetes does, and starts one of another version.
func (w *SkewWorld) replacePlugin(t testing.TB, version Version) {
	t.Helper()
	mustEnd(t, w.plugin.process)
	w.startPlugin(t, version)
}

func mustEnd(t testing.TB, process *Process) {
	t.Helper()
	if code, ended := process.Terminate(endsIn); !ended || code != 0 {
		t.Fatalf("%s ended with %d (in time: %v):\n%s", process.name, code, ended, process.logTail(10))
	}
}

// runEveryKind creates a pod of each kind of request, and returns them when they run on their cards.
func (w *SkewWorld) runEveryKind(t testing.TB) []*corev1.Pod {
	t.Helper()
	name := func(kind string) *PodBuilder { return w.pod(fmt.Sprint(kind, "-", w.created)) }
	builders := []*PodBuilder{
		name("share").share(10, 1000),
		name("two-shares").share(20, 2000).share(20, 2000),
		name("several-cards").share(40, 4000).annotation(multipleGPUKey, "2"),
		name("whole-card").wholeCards(1),
		name("sidecar").initShare(10, 1000).sidecar(10, 1000).share(10, 1000),
	}
	w.created++
	pods := make([]*corev1.Pod, len(builders))
	for i, builder := range builders {
		create(w.ctx, t, builder.runs())
		pods[i] = w.waitRunning(t, builder.pod.Name)
		w.checkView(t, pods[i])
	}
	return pods
}

// runLimitedBefore is runLimited for a device plugin of the previous version, which mounts the pipe directory without
// noexec.
func (w *NodeWorld) runLimitedBefore(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	return w.runLimitedWith(t, name, "ro", "nosuid", "nodev")
}

// checkKept checks that the pods run as before, and that a container that crashes gets the same cards and limits
// again.
func (w *NodeWorld) checkKept(t testing.TB, pods []*corev1.Pod) {
	t.Helper()
	w.checkSame(t, pods)
	crashed := pods[0]
	before := w.node.viewOf(t, crashed, "c0").environment
	w.node.killContainer(t, crashed, "c0")
	pods[0] = w.waitRestarted(t, crashed.Name, crashed.Status.ContainerStatuses[0].RestartCount+1)
	w.checkView(t, pods[0])
	after := w.node.viewOf(t, pods[0], "c0").environment
	delete(before, "MGPU_ENFORCED") // which the previous version does not set
	for name, value := range before {
		ours := strings.HasPrefix(name, "MGPU_") || strings.HasPrefix(name, "NVIDIA_") || strings.HasPrefix(name, "CUDA_")
		if ours && after[name] != value {
			t.Errorf("the container of %s had %s=%s, and has %q", crashed.Name, name, value, after[name])
		}
	}
}

// checkLogs checks that the programs found no record, annotation or file that they could not read.
func (w *SkewWorld) checkLogs(t testing.TB) {
	t.Helper()
	for _, path := range []string{w.extender.logPath, w.plugin.path("log")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "version\\\" must be") || strings.Contains(line, "cannot be read") {
				t.Errorf("%s: %s", filepath.Base(path), line)
			}
		}
	}
}
