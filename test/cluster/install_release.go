package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	releaseName        = "mgpu"
	releaseNamespace   = "mgpu-system"
	certificatesSecret = "mgpu-extender-tls"
	helmTimeout        = "5m"
	imageRepository    = "mgpu.test"
	schedulerImage     = imageRepository + "/kube-scheduler"
)

// Release is the chart, installed by helm on the full cluster with one node and cards from a file.
type Release struct {
	*NodeWorld
	folder    string // of helm, and of the client certificate of kube-scheduler
	source    string // the folder deploy of the version that helm installs
	values    map[string]any
	scheduler *Process // of the cluster
}

// newRelease returns a release that has not been installed. At the end of the test it is uninstalled.
func newRelease(t testing.TB) *Release {
	t.Helper()
	if plane.full == nil {
		t.Skip("this needs a full cluster, which test/run.sh install has")
	}
	ctx, node := context.Background(), realNode(t)
	node.forgetCards(t)
	node.label(t, "true")
	world := &NodeWorld{ctx: ctx, node: node, namespace: newNamespace(ctx, t),
		plugin: devicePluginOn(t, node, v100s(2))}
	release := &Release{NodeWorld: world, folder: t.TempDir(), source: deployPath()}
	release.values = release.firstValues(t)
	t.Cleanup(func() { release.end(t) })
	freeExtenderService(t)
	release.useScheduler(t, SchedulerSetup{configuration: "kube-scheduler.yaml", stock: true})
	return release
}

// freeExtenderService removes the IPAddress that the Service of an earlier release has left. kube-apiserver only logs that
// it cannot delete one, and its repair, which runs beside the deletion of a Service, may create one again.
func freeExtenderService(t testing.TB) {
	t.Helper()
	ctx, addresses := context.Background(), plane.admin.NetworkingV1().IPAddresses()
	address, err := addresses.Get(ctx, extenderService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	owner := address.Spec.ParentRef
	_, err = plane.admin.CoreV1().Services(owner.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("%s belongs to the Service %s/%s: %v", extenderService, owner.Namespace, owner.Name, err)
	}
	t.Logf("%s has been left by the Service %s/%s", extenderService, owner.Namespace, owner.Name)
	if err := addresses.Delete(ctx, extenderService, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// installed returns a release that is ready, and whose extender the cluster's kube-scheduler calls.
func installed(t testing.TB, values ...string) *Release {
	t.Helper()
	release := newRelease(t)
	release.install(t, values...)
	release.callExtender(t)
	release.waitOffered(t)
	release.waitLeader(t, "")
	return release
}

// waitLeader waits until a replica with another address than `before` decides, and returns its address.
func (r *Release) waitLeader(t testing.TB, before string) string {
	t.Helper()
	var address string
	waitFor(t, time.Minute, "the address of the extender that decides", func() (bool, string) {
		slice, err := plane.admin.DiscoveryV1().EndpointSlices(releaseNamespace).Get(r.ctx, "mgpu-extender",
			metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if len(slice.Endpoints) == 1 {
			address = slice.Endpoints[0].Addresses[0]
		}
		return address != "" && address != before, fmt.Sprintf("%+v", slice.Endpoints)
	})
	return address
}

// label sets whether the device plugin runs on the node.
func (n *Node) label(t testing.TB, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, domain+"/mgpu-node", value)
	_, err := n.plane.admin.CoreV1().Nodes().Patch(context.Background(), nodeName, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// firstValues returns the values that this cluster needs: images by digest, and the paths of its node. The kube-scheduler
// of the cluster calls the extender, because it starts again sooner than one in pods.
func (r *Release) firstValues(t testing.TB) map[string]any {
	t.Helper()
	digests := r.node.importPrograms(t)
	image := func(name string) map[string]any {
		return map[string]any{"repository": imageRepository + "/" + name, "digest": digests[name], "pullPolicy": "Never"}
	}
	busybox, tag, _ := strings.Cut(nodeImage, ":")
	return map[string]any{
		"extender": map[string]any{
			"image": image("mgpu-extender"), "service": map[string]any{"clusterIP": extenderService}},
		"devicePlugin": map[string]any{
			"image": image("mgpu-device-plugin"), "cardsFile": r.plugin.cardsFile(),
			"kubeletRoot": r.node.path("kubelet"), "runtimeSocket": r.node.containerdSocket(),
			"cdiDir": r.node.cdiFolder(), "stateDir": r.plugin.path("state"), "runDir": r.plugin.path("run")},
		"mps":       map[string]any{"image": image("mgpu-mps")},
		"scheduler": map[string]any{"enabled": false, "image": map[string]any{"repository": schedulerImage}},
		"test":      map[string]any{"image": map[string]any{"repository": busybox, "tag": tag}},
	}
}

// importPrograms imports the images of this version, if the node does not have them, and returns their digests.
func (n *Node) importPrograms(t testing.TB) map[string]string {
	t.Helper()
	if n.programs != nil {
		return n.programs
	}
	folder := os.Getenv("MGPU_IMAGES_FOLDER")
	if folder == "" {
		t.Fatal("MGPU_IMAGES_FOLDER is not set; test/run.sh install makes the images and sets it")
	}
	n.programs = n.importImages(t, folder)
	return n.programs
}

// importImages imports the images that deploy/images/build.sh has made in a folder, and returns their digests.
// The node has no registry, so that pods name them by digest only if containerd has that name, too.
func (n *Node) importImages(t testing.TB, folder string) map[string]string {
	t.Helper()
	var made struct {
		Images []struct{ Name, Reference, Digest string }
	}
	text, err := os.ReadFile(filepath.Join(folder, "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, image := range made.Images {
		if err := n.importArchive(filepath.Join(folder, image.Name+".oci.tar")); err != nil {
			t.Fatal(err)
		}
		repository := image.Reference[:strings.LastIndex(image.Reference, ":")]
		if _, err := n.ctr("images", "tag", "--force", image.Reference, repository+"@"+image.Digest); err != nil {
			t.Fatal(err)
		}
		digests[image.Name] = image.Digest
	}
	return digests
}

// helm runs helm, and returns its output.
func (r *Release) helm(arguments ...string) (string, error) {
	command := exec.Command(os.Getenv("MGPU_HELM_BINARY"),
		append(arguments, "--namespace", releaseNamespace, "--kubeconfig", plane.kubeconfig(adminToken))...)
	command.Env = []string{"HOME=" + r.folder, "PATH=/usr/bin:/bin"}
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("helm %v: %w: %s", arguments, err, output)
	}
	return string(output), nil
}

// mustHelm ends the test if helm fails.
func (r *Release) mustHelm(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := r.helm(arguments...)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.state())
	}
	return output
}

// state says what the pods of the release do.
func (r *Release) state() string {
	pods, err := plane.admin.CoreV1().Pods(releaseNamespace).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	said := ""
	for _, pod := range pods.Items {
		said += fmt.Sprintf("%s: %s %s%s\n", pod.Name, statusOf(&pod), scheduledCondition(&pod), eventsOf(r.ctx, &pod))
		for _, container := range pod.Spec.Containers {
			said += r.node.logOf(&pod, container.Name) + "\n"
		}
	}
	return said
}

// flags returns the arguments for values, as in "extender.policy=binpack".
func (r *Release) flags(t testing.TB, values ...string) []string {
	t.Helper()
	text, err := yaml.Marshal(r.values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.folder, "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--values", file, "--wait", "--timeout", helmTimeout}
	for _, value := range values {
		flags = append(flags, "--set", value)
	}
	return flags
}

func (r *Release) install(t testing.TB, values ...string) {
	t.Helper()
	r.mustHelm(t, append([]string{"install", releaseName, r.chart(), "--create-namespace"},
		r.flags(t, values...)...)...)
}

func (r *Release) upgrade(t testing.TB, values ...string) {
	t.Helper()
	r.mustHelm(t, append([]string{"upgrade", releaseName, r.chart()}, r.flags(t, values...)...)...)
}

func (r *Release) chart() string { return filepath.Join(r.source, "chart") }

func (r *Release) uninstall(t testing.TB) {
	t.Helper()
	r.mustHelm(t, "uninstall", releaseName, "--wait", "--timeout", helmTimeout)
}

// end removes the pods of the test while the device plugin runs, and the release with its Secret.
func (r *Release) end(t testing.TB) {
	if t.Failed() {
		t.Logf("pods of the release:\n%s", r.state())
		t.Logf("last lines of kubelet:\n%s", r.node.kubelet.logTail(15))
	}
	removePods(r.namespace)
	if _, err := r.helm("uninstall", releaseName, "--ignore-not-found", "--wait", "--timeout", helmTimeout); err != nil {
		t.Error(err)
	}
	err := plane.admin.CoreV1().Secrets(releaseNamespace).Delete(r.ctx, certificatesSecret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := r.node.removePods(); err != nil {
		t.Error(err)
	}
}

// useScheduler replaces the kube-scheduler of the cluster.
func (r *Release) useScheduler(t testing.TB, setup SchedulerSetup) {
	t.Helper()
	if r.scheduler != nil {
		r.scheduler.Kill()
	}
	r.scheduler = plane.startScheduler(t, setup)
}

// runDocumented runs the commands of deploy/INSTALL.md that begin with these words.
func (r *Release) runDocumented(t testing.TB, begin string) {
	t.Helper()
	text, err := os.ReadFile(deployPath("INSTALL.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, commands, found := strings.Cut(string(text), "\n```\n"+begin)
	commands, _, ended := strings.Cut(commands, "\n```\n")
	if !found || !ended {
		t.Fatalf("deploy/INSTALL.md has no commands that begin with %q", begin)
	}
	if output, err := r.asAdministrator("-c", "set -eu\n"+begin+commands).CombinedOutput(); err != nil {
		t.Fatalf("%s%s: %v: %s", begin, commands, err, output)
	}
}

// asAdministrator returns a command of bash with kubectl and the rights of an administrator.
func (r *Release) asAdministrator(arguments ...string) *exec.Cmd {
	command := exec.Command("bash", arguments...)
	command.Env = []string{"PATH=" + plane.binaries + ":/usr/bin:/bin", "KUBECONFIG=" + plane.kubeconfig(adminToken),
		"HOME=" + r.folder}
	return command
}

// schedulerFiles writes the files with which a kube-scheduler on the node calls the extender, and returns
// their folder.
func (r *Release) schedulerFiles(t testing.TB, folder string, flags ...string) string {
	t.Helper()
	command := r.asAdministrator(append(append([]string{filepath.Join(r.source, "scheduler", "files.sh"),
		"--namespace", releaseNamespace}, flags...), folder)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("files.sh: %v: %s", err, output)
	}
	return folder
}

// callExtender lets the kube-scheduler of the cluster call the extender at the address of its Service, with
// the client certificate of the Secret.
func (r *Release) callExtender(t testing.TB) {
	t.Helper()
	folder := r.schedulerFiles(t, filepath.Join(r.folder, "scheduler"))
	r.useScheduler(t, SchedulerSetup{configurationPath: filepath.Join(folder, "kube-scheduler.yaml")})
}

// waitOffered waits until the node offers its cards.
func (r *Release) waitOffered(t testing.TB) {
	t.Helper()
	// helm does not wait for the pods that maxUnavailable permits to be missing.
	r.kubectl(t, "rollout", "status", "daemonset/mgpu-device-plugin", "--namespace", releaseNamespace, "--timeout=180s")
	core, memory := r.plugin.capacity()
	waitFor(t, time.Minute, "the node to offer its cards", func() (bool, string) {
		one := r.node.object(t)
		gotCore, gotMemory := one.Status.Allocatable[coreResource], one.Status.Allocatable[memoryResource]
		return gotCore.Value() == core && gotMemory.Value() == memory && r.plugin.announcedIn(one.Annotations[cardsKey]),
			fmt.Sprint(gotCore.String(), " and ", gotMemory.String(), ", ", one.Annotations[cardsKey])
	})
}

// runShare creates a pod with a share, and waits until it runs on its card.
func (r *Release) runShare(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	create(r.ctx, t, r.pod(name).share(30, 1024).runs())
	pod := r.waitRunning(t, name)
	r.checkView(t, pod)
	return pod
}

// podsOf returns the names of the pods of a component.
func (r *Release) podsOf(t testing.TB, component string) []string {
	t.Helper()
	pods, err := plane.admin.CoreV1().Pods(releaseNamespace).List(r.ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// importScheduler makes an image of the kube-scheduler of these tests, if the node does not have it.
func (n *Node) importScheduler(t testing.TB) {
	t.Helper()
	if n.scheduler {
		return
	}
	program, err := os.ReadFile(filepath.Join(n.plane.binaries, "kube-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := archiveOf([]archiveFile{{name: "bin/kube-scheduler", body: program, mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.importLayer(schedulerImage+":"+n.plane.version(t), layer, "/bin/kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	n.scheduler = true
}

// clientAs returns a client with the rights of a service account of the release.
func (r *Release) clientAs(t testing.TB, account string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", plane.kubeconfig(adminToken))
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = "system:serviceaccount:" + releaseNamespace + ":" + account
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// patchPod patches a pod, or a subresource of it.
func (r *Release) patchPod(client kubernetes.Interface, pod *corev1.Pod, patch string, subresources ...string) error {
	_, err := client.CoreV1().Pods(pod.Namespace).Patch(r.ctx, pod.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	return err
}

// forwardPort forwards a port of a pod until the end of the test, and returns the address on this machine.
func (r *Release) forwardPort(t testing.TB, target, port string) string {
	t.Helper()
	local, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	process, err := startProcess("kubectl", filepath.Join(r.folder, "port-forward.log"),
		filepath.Join(plane.binaries, "kubectl"), "--kubeconfig", plane.kubeconfig(adminToken),
		"--namespace", releaseNamespace, "port-forward", target, fmt.Sprint(local, ":", port))
	if err != nil {
		t.Fatal(err)
	}
	process.endWithTest(t)
	address := fmt.Sprint("127.0.0.1:", local)
	waitFor(t, time.Minute, "kubectl to forward "+target, func() (bool, string) {
		if !process.running() {
			t.Fatalf("kubectl ended: %s", process.logTail(5))
		}
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
	return address
}
