package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tests of this file run one version of mgpu beside an earlier one, on the real node.

const skewCards = 8 // for three pods of each kind, with 210 % of a card together

func TestSkewExtenderIsNewerThanDevicePlugin(t *testing.T) {
	for _, previous := range previousVersions(t) {
		t.Run(previous.name, func(t *testing.T) { checkSkew(t, thisVersion(t), previous) })
	}
}

func TestSkewDevicePluginIsNewerThanExtender(t *testing.T) {
	for _, previous := range previousVersions(t) {
		t.Run(previous.name, func(t *testing.T) { checkSkew(t, previous, thisVersion(t)) })
	}
}

// checkSkew checks that pods get exactly their cards, also after both programs were started again.
func checkSkew(t *testing.T, extender, plugin Version) {
	world := newSkewWorld(t, extender, plugin, thisVersion(t), v100s(skewCards))
	pods := world.runEveryKind(t)
	world.replaceExtender(t, extender)
	world.replacePlugin(t, plugin)
	world.runEveryKind(t)
	world.checkKept(t, pods)
	world.history.check(world.ctx, t)
	world.checkLogs(t)
}

// deploy/OPERATIONS.md has this order.
func TestSkewUpgradeLeavesRunningPodsUntouched(t *testing.T) {
	previous, this := previousVersion(t), thisVersion(t)
	world := newSkewWorld(t, previous, previous, previous, v100s(skewCards))
	pods := world.runEveryKind(t)
	applyRightsOf(t, this)
	world.replaceExtender(t, this)
	pods = append(pods, world.runEveryKind(t)...)
	world.replacePlugin(t, this)
	pods = append(pods, world.runEveryKind(t)...)
	world.checkKept(t, pods)
	world.history.check(world.ctx, t)
	world.checkLogs(t)
}

func TestSkewRollbackLeavesRunningPodsUntouched(t *testing.T) {
	previous, this := previousVersion(t), thisVersion(t)
	world := newSkewWorld(t, this, this, this, v100s(skewCards))
	pods := world.runEveryKind(t)
	world.replacePlugin(t, previous)
	pods = append(pods, world.runEveryKind(t)...)
	world.replaceExtender(t, previous)
	applyRightsOf(t, previous)
	pods = append(pods, world.runEveryKind(t)...)
	world.checkKept(t, pods)
	world.history.check(world.ctx, t)
	world.checkLogs(t)
}

// The previous version could give containers device nodes without CDI. They run on and hold their cards.
func TestSkewContainersWithDeviceNodesKeepTheirCards(t *testing.T) {
	this := thisVersion(t)
	world := newSkewWorld(t, this, previousVersion(t), this, v100s(2), "--injection", "device-nodes")
	world.createBound(t, world.pod("before").share(60, 4000), "0")
	pod := world.waitRunning(t, "before")
	world.plugin.flags = nil
	world.replacePlugin(t, this)
	world.checkSame(t, []*corev1.Pod{pod})
	world.createBound(t, world.pod("too-large").share(60, 4000), "0")
	world.waitRefused(t, "too-large", "of which pods "+world.namespace+"/before use 60 %")
	world.node.killContainer(t, pod, "c0")
	world.waitSaid(t, pod, "device nodes without CDI")
	world.checkLogs(t)
}

// The chart keeps the pods of mgpu-mps at an upgrade, so that the daemons of the previous version stay for
// as long as programs use them.
func TestSkewDaemonsOfMPSAreOfThePreviousVersion(t *testing.T) {
	previous, this := previousVersion(t), thisVersion(t)
	control := mpsControlBinary(t)
	// The path of a socket has at most 107 bytes.
	run, err := os.MkdirTemp("/run", "mgpu-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	cards := v100s(2)
	world := &SkewWorld{extender: plane.startExtender(t)}
	plane.startScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", extenderURL: world.extender.url()})
	world.NodeWorld = nodeWorldOn(t, cards, "--isolation", "mps", "--mps-service=true", "--mps-control", control,
		"--run-dir", run, "--reserve-mib", "0")
	daemons, err := startProcess("mgpu-mps", world.plugin.path("mps.log"), previous.mps, "--cards-file",
		world.plugin.cardsFile(), "--run-dir", run, "--mps-control", control)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustEnd(t, daemons) })
	world.startPlugin(t, previous)
	before := world.runLimitedBefore(t, "before")
	world.replacePlugin(t, this)
	world.runLimited(t, "after")
	world.checkSame(t, []*corev1.Pod{before})
	if pipes, _ := filepath.Glob(filepath.Join(run, "mps", "*", "calls")); len(pipes) != len(cards) {
		t.Errorf("the daemons have written %v, want one file for each card", pipes)
	}
}

// A process of the previous version does not renew the Lease. It must not run beside replicas that elect
// a leader; if it does, it binds nothing more when one of them leads, and ends.
func TestSkewALeaderTakesTheLeaseOfThePreviousVersion(t *testing.T) {
	previous, ctx := previousVersion(t), context.Background()
	namespace := newNamespace(ctx, t)
	plane.createNode(ctx, t, "gpu-skew", 1)
	pod := create(ctx, t, newPod(namespace, "some").share(10, 1024).scheduler("nobody"))
	old := plane.extenderOn(t, "http", http.DefaultClient)
	old.binary = previous.extender
	old.start(t)
	old.waitReady(t)
	holder := func() string {
		lease, err := plane.admin.CoordinationV1().Leases("kube-system").Get(ctx, "mgpu-extender", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *lease.Spec.HolderIdentity
	}
	first := holder()
	plane.startExtender(t, "--leader-elect")
	waitFor(t, time.Minute, "another holder of the Lease", func() (bool, string) { return holder() != first, first })
	status, answer, err := old.post("/mgpu/bind", strings.NewReader(fmt.Sprintf(
		`{"PodName":"some","PodNamespace":%q,"PodUID":%q,"Node":"gpu-skew"}`, namespace, pod.UID)))
	if err != nil || !strings.Contains(answer, "no longer holds the lease") {
		t.Errorf("the extender of the previous version answers %d %s %v, want an error about the lease", status, answer, err)
	}
	waitFor(t, time.Minute, "the extender of the previous version to end", func() (bool, string) {
		return !old.process.running(), old.process.logTail(3)
	})
	old.process = nil // its end is not checked again
	if node := get(ctx, t, namespace, "some").Spec.NodeName; node != "" {
		t.Errorf("the pod was bound to %s", node)
	}
}
