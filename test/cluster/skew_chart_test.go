package cluster

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The tests of this file begin with the chart of the commit in previous-chart, and its images.

// installedBefore returns a release of the previous chart that is ready, and the digests of the images of this
// version.
func installedBefore(t testing.TB, change func(release *Release)) (release *Release, digests map[string]string) {
	t.Helper()
	previous := builtVersion(t, "previous-chart", "MGPU_PREVIOUS_CHART_FOLDER")
	release = newRelease(t)
	digests = release.node.importPrograms(t)
	release.source = previous.deploy
	release.useImages(release.node.importImages(t, filepath.Join(filepath.Dir(previous.deploy), "images")))
	change(release)
	release.install(t)
	release.callExtender(t)
	release.waitOffered(t)
	release.waitLeader(t, "")
	return release, digests
}

var imagesOfChart = map[string]string{"extender": "mgpu-extender", "devicePlugin": "mgpu-device-plugin", "mps": "mgpu-mps"}

func (r *Release) useImages(digests map[string]string) {
	for part, image := range imagesOfChart {
		r.values[part].(map[string]any)["image"].(map[string]any)["digest"] = digests[image]
	}
}

// withNewImages returns flags of helm that keep the other values of the release.
func withNewImages(how string, digests map[string]string) []string {
	flags := []string{how, "--wait", "--timeout", helmTimeout}
	for part, image := range imagesOfChart {
		flags = append(flags, "--set", part+".image.digest="+digests[image])
	}
	return flags
}

// runSome creates pods with shares, and returns them when they run on their cards.
func (r *Release) runSome(t testing.TB, when string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for _, builder := range []*PodBuilder{
		r.pod("share-"+when).share(5, 1024),
		r.pod("two-shares-"+when).share(4, 1024).share(4, 1024),
	} {
		create(r.ctx, t, builder.runs())
		pod := r.waitRunning(t, builder.pod.Name)
		r.checkView(t, pod)
		pods = append(pods, pod)
	}
	return pods
}

// checkUpgrade upgrades to this version, rolls back, upgrades again and uninstalls, while pods run. The flags are
// those of the two upgrades.
func (r *Release) checkUpgrade(t testing.TB, first, second []string) {
	t.Helper()
	history := plane.beginHistory(r.ctx, t, r.namespace)
	pods := r.runSome(t, "before")
	whole := create(r.ctx, t, r.pod("whole").wholeCards(1).runs())
	pods = append(pods, r.waitRunning(t, whole.Name))
	daemons := r.podsOf(t, "mps")
	next := func(when string, arguments ...string) {
		t.Helper()
		r.mustHelm(t, arguments...)
		r.waitOffered(t)
		pods = append(pods, r.runSome(t, when)...)
		r.checkKept(t, pods)
		r.checkLogs(t)
		if now := r.podsOf(t, "mps"); !slices.Equal(now, daemons) {
			t.Errorf("%s: the pods of MPS were %v, and are %v", when, daemons, now)
		}
	}
	r.source = deployPath()
	next("upgraded", append([]string{"upgrade", releaseName, r.chart()}, first...)...)
	next("rolled-back", "rollback", releaseName, "1", "--wait", "--timeout", helmTimeout)
	next("upgraded-again", append([]string{"upgrade", releaseName, r.chart()}, second...)...)
	r.waitGood(t)
	r.uninstall(t)
	r.checkSame(t, pods)
	history.check(r.ctx, t)
}

// checkLogs checks that the programs found no record, annotation or file that they could not read.
func (r *Release) checkLogs(t testing.TB) {
	t.Helper()
	for component, container := range map[string]string{"extender": "mgpu-extender", "device-plugin": "mgpu-device-plugin"} {
		for _, name := range r.podsOf(t, component) {
			pod := get(r.ctx, t, releaseNamespace, name)
			for line := range strings.Lines(r.node.logOf(pod, container)) {
				if strings.Contains(line, "version\\\" must be") || strings.Contains(line, "cannot be read") {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
}

func TestSkewChartUpgradeLeavesRunningPodsUntouched(t *testing.T) {
	release, digests := installedBefore(t, func(*Release) {})
	release.useImages(digests)
	flags := release.flags(t)
	release.checkUpgrade(t, flags, flags)
}

// With --reuse-values the release has no value that is new in this version.
func TestSkewChartUpgradeWithReusedValuesKeepsLimits(t *testing.T) {
	release, digests := installedBefore(t, func(release *Release) { release.useMPS(t) })
	limited := release.runLimitedBefore(t, "limited")
	release.checkUpgrade(t, withNewImages("--reuse-values", digests), withNewImages("--reset-then-reuse-values", digests))
	release.checkUntouched(t, limited)
}
