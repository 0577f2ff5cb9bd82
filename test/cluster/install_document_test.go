package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The tests of this file run the commands of deploy/INSTALL.md.

const documentedRegistry = "registry.example.com/"

// Blocks of deploy/INSTALL.md that runInstallation runs.
const (
	installsTheChart = "helm install mgpu deploy/chart"
	labelsANode      = "kubectl label node gpu-01"
	upgradesAndBack  = "helm upgrade mgpu deploy/chart --namespace mgpu-system --reset-then-reuse-values --wait\n"
	removesScheduler = "helm upgrade mgpu deploy/chart --namespace mgpu-system --reset-then-reuse-values --wait \\"
	uninstalls       = "helm uninstall mgpu"
)

// Other blocks, by their beginning, and what is run instead.
var otherwiseRun = map[string]string{
	"export KUBECONFIG=/etc/kubernetes/admin.conf": "needs a cluster made by kubeadm",
	"kubeadm init phase upload-config":             "needs a cluster made by kubeadm",
	"deploy/scheduler/files.sh /etc/kubernetes":    "TestInstallStaticPodOfKubeadmCallsTheExtender, with other folders",
	"deploy/scheduler/files.sh --kubeconfig":       "k3s is untried",
	"deploy/scheduler/files.sh --at":               "kind is untried",
	"kubectl port-forward":                         "TestInstallPortForwardReachesInspection",
	"ctr --namespace k8s.io images import":         "importImages, with other names",
	"kubectl drain gpu-01":                         "needs NVIDIA's GPU operator",
	"kubectl delete namespace":                     "TestInstallDocumentationRemovesWhatIsLeft",
	"helm template":                                "render.sh, with other flags",
	"deploy/install.sh\ncmake":                     "test/run.sh, with more targets",
	"ini\n":                                        "no command",
}

// installationBlocks returns the blocks of commands, also those in lists, without their indentation.
func installationBlocks() ([]string, error) {
	text, err := os.ReadFile(deployPath("INSTALL.md"))
	return commandsIn(regexp.MustCompile(`(?m)^   `).ReplaceAllString(string(text), "")), err
}

func mustReadInstallation(t testing.TB) []string {
	t.Helper()
	blocks, err := installationBlocks()
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

func TestChartInstallationIsRunByTests(t *testing.T) {
	blocks := mustReadInstallation(t)
	if len(blocks) < 10 {
		t.Fatalf("deploy/INSTALL.md has the commands %q only", blocks)
	}
	known := []string{installsTheChart, labelsANode, upgradesAndBack, removesScheduler, uninstalls, appliesRights, permitsEvictions}
	for begin := range otherwiseRun {
		known = append(known, begin)
	}
	for _, block := range blocks {
		if !slices.ContainsFunc(known, func(begin string) bool { return strings.HasPrefix(block, begin) }) {
			t.Errorf("no test runs the commands of deploy/INSTALL.md\n%s", block)
		}
	}
	for _, begin := range known {
		blockOf(t, "INSTALL.md", blocks, begin)
	}
}

// runInstallation runs a block of deploy/INSTALL.md for this node, with more at its end.
func (r *Release) runInstallation(t testing.TB, begin, more string) {
	t.Helper()
	block := strings.ReplaceAll(blockOf(t, "INSTALL.md", mustReadInstallation(t), begin), "gpu-01", nodeName)
	if _, err := r.runBlock(t, block+more); err != nil {
		t.Fatalf("%v\n%s", err, r.state())
	}
}

// useDocumentedImages gives the images the names that they have in deploy/INSTALL.md and in the chart. Of the image's values
// the node needs that nothing is pulled.
func (r *Release) useDocumentedImages(t testing.TB) {
	t.Helper()
	r.node.importScheduler(t)
	names := map[string]string{
		schedulerImage + ":" + plane.version(t): "registry.k8s.io/kube-scheduler:" + plane.version(t),
		nodeImage:                               "docker.io/library/busybox:stable"}
	for part, image := range imagesOfChart {
		names[imageRepository+"/"+image+":test"] = documentedRegistry + "mgpu/" + image + ":0.1.0"
		r.set(part, "image", map[string]any{"pullPolicy": "Never"})
	}
	for name, documented := range names {
		if _, err := r.node.ctr("images", "tag", "--force", name, documented); err != nil {
			t.Fatal(err)
		}
	}
}

// valuesOfTheNode writes the values that do not come with the document, such as the paths of the node.
func (r *Release) valuesOfTheNode(t testing.TB) string {
	t.Helper()
	delete(r.values, "scheduler")
	delete(r.values, "test")
	text, err := yaml.Marshal(r.values)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.folder, "node.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// podOfTheReadme returns the first Pod of README.md that requests a share.
func podOfTheReadme(t testing.TB) (name, manifest string) {
	t.Helper()
	text, err := os.ReadFile(repositoryPath("README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range commandsIn(string(text)) {
		manifest, isYAML := strings.CutPrefix(block, "yaml\n")
		if !isYAML || !strings.Contains(manifest, coreResource) || !strings.Contains(manifest, "kind: Pod") {
			continue
		}
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
			t.Fatalf("%v: %s", err, manifest)
		}
		return pod.Name, manifest
	}
	t.Fatal("README.md has no pod with a share")
	return "", ""
}

// createPodOfTheReadme creates that pod as it is, and returns its name.
func (r *Release) createPodOfTheReadme(t testing.TB) string {
	t.Helper()
	name, manifest := podOfTheReadme(t)
	path := filepath.Join(r.folder, "pod.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	r.kubectl(t, "apply", "--namespace", r.namespace, "--filename", path)
	return name
}

func TestInstallDocumentInstallsUpgradesAndUninstalls(t *testing.T) {
	release := newRelease(t)
	release.useDocumentedImages(t)
	release.kubectl(t, "delete", "namespace", releaseNamespace, "--ignore-not-found", "--timeout=180s")
	release.node.setLabel(t, domain+"/mgpu-node", "")
	// Nothing else is necessary before the first pod.
	begin, first := time.Now(), mustReadInstallation(t)[:2]
	if !strings.HasPrefix(first[0], installsTheChart) || !strings.HasPrefix(first[1], labelsANode) {
		t.Fatalf("deploy/INSTALL.md begins with %q", first)
	}
	release.runInstallation(t, installsTheChart, " --values "+release.valuesOfTheNode(t))
	release.runInstallation(t, labelsANode, "")
	ready := time.Since(begin)
	release.waitRunning(t, release.createPodOfTheReadme(t))
	t.Logf("%d commands took %v, and the first pod with a share ran after %v", len(first), ready, time.Since(begin))

	release.waitOffered(t)
	pods := []*corev1.Pod{release.runShare(t, "installed")}
	release.runInstallation(t, upgradesAndBack, "")
	release.waitOffered(t)
	pods = append(pods, release.runShare(t, "rolled-back"))
	release.runInstallation(t, removesScheduler, "")
	release.callExtender(t)
	pods = append(pods, release.runShare(t, "own-scheduler"))
	release.runInstallation(t, uninstalls, "")
	release.checkSame(t, pods)
}
