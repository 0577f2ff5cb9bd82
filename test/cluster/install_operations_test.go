package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tests of this file run the commands of deploy/OPERATIONS.md.

func TestChartOperationsAreRunByTests(t *testing.T) {
	source, err := os.ReadFile("install_operations_test.go")
	if err != nil {
		t.Fatal(err)
	}
	helpers, err := os.ReadFile("install_operations.go")
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for _, call := range regexp.MustCompile(`perations\(t, ("(?:[^"\\]|\\.)+")`).FindAllStringSubmatch(string(source)+string(helpers), -1) {
		begin, err := strconv.Unquote(call[1])
		if err != nil {
			t.Fatal(call[1], err)
		}
		run = append(run, begin)
	}
	blocks := commandsIn(operationsDocument(t))
	if len(blocks) < 10 {
		t.Fatalf("deploy/OPERATIONS.md has the commands %q only", blocks)
	}
	for i, block := range blocks {
		// A test runs the first block that begins with its words.
		isRun := slices.ContainsFunc(run, func(begin string) bool {
			return slices.IndexFunc(blocks, func(one string) bool { return strings.HasPrefix(one, begin) }) == i
		})
		if !isRun && slices.Index(blocks, block) == i {
			t.Errorf("no test runs the commands of deploy/OPERATIONS.md\n%s", block)
		}
	}
}

func TestInstallOperationsUpgradeAndRollback(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	release.runOperations(t, "helm upgrade mgpu deploy/chart --namespace mgpu-system --reset-then-reuse-values")
	release.upgrade(t, "extender.logLevel=debug", "devicePlugin.logLevel=debug")
	release.runOperations(t, "helm rollback")
	release.waitOffered(t)
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallOperationsMoveTheLead(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	leader := func() string {
		first, _, _ := strings.Cut(release.runOperations(t, "kubectl get lease"), "\n")
		return first
	}
	first := leader()
	release.runOperations(t, "kubectl rollout restart deployment/mgpu-extender --namespace mgpu-system\nkubectl rollout")
	waitFor(t, time.Minute, "another leader", func() (bool, string) {
		now := leader()
		return now != first && now != "", now
	})
	release.waitGood(t)
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallOperationsShowAndReplaceCertificates(t *testing.T) {
	release := installed(t)
	before := release.runShare(t, "before")
	end := regexp.MustCompile(`notAfter=.* (\d{4}) GMT`).FindStringSubmatch(release.runOperations(t, "kubectl get secret mgpu-extender-tls"))
	if want := fmt.Sprint(time.Now().AddDate(10, 0, 0).Year()); end == nil || end[1] != want && end[1] != fmt.Sprint(time.Now().Year()+9) {
		t.Errorf("the authority ends in %v, want %s", end, want)
	}
	folder := "FOLDER=" + release.schedulerFolder()
	authority := func() string {
		text, err := os.ReadFile(filepath.Join(release.schedulerFolder(), "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	old := authority()
	configuration := filepath.Join(release.schedulerFolder(), "kube-scheduler.yaml")
	if err := os.Chtimes(configuration, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	release.runOperations(t, "deploy/scheduler/files.sh", folder)
	if file, err := os.Stat(configuration); err != nil || file.ModTime() != time.Unix(1, 0) {
		t.Errorf("--certificates-only has replaced kube-scheduler.yaml: %v", err)
	}
	if authority() != old {
		t.Error("files.sh has replaced the authority, which has not changed")
	}
	release.runOperations(t, "kubectl patch secret mgpu-extender-tls", folder)
	if authority() == old {
		t.Error("the authority is the old one")
	}
	release.restartScheduler(t, release.schedulerFolder())
	release.runShare(t, "after")
	release.checkUntouched(t, before)
}

func TestInstallOperationsDrainANodeAndReleaseItsDriver(t *testing.T) {
	// The cluster has one node, so that a second replica could not move.
	release := newRelease(t)
	release.install(t, "extender.replicas=1")
	release.callExtender(t)
	release.waitOffered(t)
	release.deploy(t, "trainer", release.pod("unused").share(30, 1024))
	first := release.deployed(t, "trainer")
	release.runOperations(t, "kubectl drain")
	_, err := plane.admin.CoreV1().Pods(first.Namespace).Get(release.ctx, first.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("pod %s is there after the drain: %v", first.Name, err)
	}
	release.runOperations(t, "kubectl label node \"$NODE\" vke.volcengine.com/mgpu-release-driver=true")
	if said := release.node.object(t).Annotations[cardsKey]; !strings.Contains(said, "the node has the label "+domain+"/mgpu-release-driver=true") {
		t.Errorf("the cards of the node are %s, want the reason in their health", said)
	}
	release.runOperations(t, "kubectl label node \"$NODE\" vke.volcengine.com/mgpu-release-driver-")
	release.waitOffered(t)
	release.checkView(t, release.deployed(t, "trainer"))
}

// deploy creates a Deployment with one pod.
func (r *Release) deploy(t testing.TB, name string, builder *PodBuilder) {
	t.Helper()
	pod, one := builder.runs().build(), int32(1)
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}}}
	_, err := plane.admin.AppsV1().Deployments(r.namespace).Create(r.ctx, deployment, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := plane.admin.AppsV1().Deployments(r.namespace).Delete(r.ctx, name, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}

// deployed returns the pod of a Deployment when it runs.
func (r *Release) deployed(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	var found corev1.Pod
	waitFor(t, podRunningLimit, "a pod of "+name, func() (bool, string) {
		pods, err := plane.admin.CoreV1().Pods(r.namespace).List(r.ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return false, err.Error()
		}
		at := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil && allRun(&pod) })
		if at < 0 {
			return false, fmt.Sprint(len(pods.Items), " pods, none runs")
		}
		found = pods.Items[at]
		return true, ""
	})
	return &found
}

// A pod that was bound after the snapshot is lost, and one that was deleted after it is bound to its card
// again. They had the same card.
func TestInstallOperationsRestoreEtcd(t *testing.T) {
	if os.Getenv("MGPU_ETCD_TOOLS_FOLDER") == "" {
		t.Skip("MGPU_ETCD_TOOLS_FOLDER is not set; test/run.sh install builds etcdctl and etcdutl, and sets it")
	}
	release := installed(t)
	kept := release.runShare(t, "kept")
	create(release.ctx, t, release.pod("deleted").wholeCards(1).runs())
	deleted := release.waitRunning(t, "deleted")
	snapshot := filepath.Join(release.folder, "snapshot.db")
	release.runOperations(t, "etcdctl snapshot save", "SNAPSHOT="+snapshot,
		fmt.Sprint("ETCDCTL_ENDPOINTS=http://127.0.0.1:", plane.etcdPort))
	// The Lease in the snapshot names a process that has ended.
	release.runOperations(t, "kubectl rollout restart deployment/mgpu-extender --namespace mgpu-system\nkubectl rollout")
	release.removeNow(t, "deleted")
	create(release.ctx, t, release.pod("lost").wholeCards(1).runs())
	lost := release.waitRunning(t, "lost")
	card := indexKeyPrefix + "c0"
	if lost.Annotations[card] != deleted.Annotations[card] {
		t.Fatalf("%s has card %s, want that of the deleted pod, %s", lost.Name, lost.Annotations[card], deleted.Annotations[card])
	}

	release.restoreEtcd(t, snapshot)
	release.restartScheduler(t, release.schedulerFolder())
	release.runOperations(t, "kubectl rollout restart deployment/mgpu-extender --namespace mgpu-system\nkubectl rollout")
	release.waitOffered(t)
	release.waitGood(t)
	_, err := plane.admin.CoreV1().Pods(release.namespace).Get(release.ctx, "lost", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the pod that was bound after the snapshot: %v, want that it does not exist", err)
	}
	again := release.waitRunning(t, "deleted")
	release.checkView(t, again)
	if again.UID != deleted.UID || again.Annotations[card] != deleted.Annotations[card] {
		t.Errorf("the pod is %s with card %s, want %s with card %s", again.UID, again.Annotations[card], deleted.UID, deleted.Annotations[card])
	}
	release.checkUntouched(t, kept)
	if after := release.runShare(t, "after"); after.Annotations[card] == deleted.Annotations[card] {
		t.Errorf("a new pod has card %s, which the pod %s has", after.Annotations[card], deleted.Name)
	}
}

func TestInstallOperationsInstallAgainAfterEverythingWasLost(t *testing.T) {
	release := installed(t)
	first, second := release.runShare(t, "first"), release.runShare(t, "second")
	values := "VALUES=" + filepath.Join(release.folder, "saved-values.yaml")
	release.runOperations(t, "helm get values", values)
	release.uninstall(t)
	release.runDocumented(t, "kubectl delete namespace")
	for _, folder := range []string{"state", "run"} {
		if err := os.RemoveAll(release.plugin.path(folder)); err != nil {
			t.Fatal(err)
		}
	}
	release.node.label(t, "true")
	release.checkUntouched(t, first)

	release.runOperations(t, "kubectl create namespace", values, "FOLDER="+release.schedulerFolder())
	release.restartScheduler(t, release.schedulerFolder())
	release.waitOffered(t)
	release.waitGood(t)
	release.checkUntouched(t, first)
	release.checkUntouched(t, second)
	release.node.killContainer(t, second, "c0")
	release.checkView(t, release.waitRestarted(t, second.Name, 1))
	create(release.ctx, t, release.pod("whole").wholeCards(1).runs())
	whole := release.waitRunning(t, "whole")
	release.checkView(t, whole)
	card := indexKeyPrefix + "c0"
	for _, pod := range []*corev1.Pod{first, second} {
		if whole.Annotations[card] == pod.Annotations[card] {
			t.Errorf("a pod has the whole card %s, of which %s has a share", whole.Annotations[card], pod.Name)
		}
	}
}
