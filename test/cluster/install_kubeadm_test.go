package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

const kubeadmFolder = "/etc/kubernetes"

// kubeadm makes the static pod of kube-scheduler from the ClusterConfiguration in deploy/scheduler/kubeadm, and
// kubelet runs it.
func TestInstallStaticPodOfKubeadmCallsTheExtender(t *testing.T) {
	release := newRelease(t)
	release.install(t)
	release.waitOffered(t)
	folder := release.node.path("kubernetes")
	release.schedulerFiles(t, filepath.Join(folder, "mgpu"), "--at", kubeadmFolder+"/mgpu")
	release.writeSchedulerConf(t, filepath.Join(folder, "scheduler.conf"))
	release.node.importScheduler(t)
	release.scheduler.Kill()
	release.runStaticPod(t, release.kubeadmManifest(t), folder)
	release.runShare(t, "share")
}

func TestInstallSchedulerFilesNeedACompleteSecret(t *testing.T) {
	if plane.full == nil {
		t.Skip("this needs a full cluster, which test/run.sh install has")
	}
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	release := &Release{folder: t.TempDir()}
	meta := metav1.ObjectMeta{Name: "mgpu-extender", Namespace: namespace}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9800}}}}
	if _, err := plane.admin.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	meta.Name = certificatesSecret
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"ca.crt": []byte("x"),
		"tls.crt": []byte("of the server"), "tls.key": []byte("of the server")}}
	for _, step := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"--namespace", namespace, "files"}, `secrets "mgpu-extender-tls" not found`},
		{[]string{"--namespace", namespace, "files"}, "has no client.crt; the extender fills it when it starts"},
		{[]string{"--namespace", "nothing", "files"}, `namespaces "nothing" not found`},
		{[]string{"--at", "files", "files"}, `--at: "files" is not an absolute path`},
		{[]string{"--context", "x", "files"}, `unknown flag "--context"; expected --namespace, --secret,`},
		{[]string{"--certificates-only", "--namespace", namespace, "files"}, "has no client.crt"},
		{[]string{"--namespace"}, "--namespace needs a value"},
		{nil, "expected one folder for the files, got 0"},
	} {
		command := release.asAdministrator(append([]string{repositoryPath("deploy", "scheduler", "files.sh")}, step.arguments...)...)
		command.Dir = release.folder
		output, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(output), step.want) {
			t.Errorf("files.sh %v says %q %v, want %q", step.arguments, output, err, step.want)
		}
		if written, _ := filepath.Glob(filepath.Join(release.folder, "files", "*")); len(written) > 0 {
			t.Errorf("files.sh %v has written %v", step.arguments, written)
		}
		if secret != nil {
			if _, err := plane.admin.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			secret = nil
		}
	}
}

// writeSchedulerConf writes the kubeconfig of kube-scheduler with the certificate of the API server in it.
func (r *Release) writeSchedulerConf(t testing.TB, path string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(plane.kubeconfig(schedulerToken))
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
}

// kubeadmManifest returns the manifest that kubeadm writes on a control-plane node.
func (r *Release) kubeadmManifest(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(deployPath("scheduler", "kubeadm", "cluster-configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// These depend on the cluster.
	configuration := string(text) + "\nkubernetesVersion: " + plane.version(t) + "\nimageRepository: " + imageRepository + "\n"
	path := filepath.Join(r.folder, "kubeadm.yaml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(plane.binaries, "kubeadm"), "init", "phase", "control-plane", "scheduler",
		"--dry-run", "--config", path)
	command.Env = []string{"KUBEADM_INIT_DRYRUN_DIR=" + r.folder, "HOME=" + r.folder, "PATH=/usr/bin:/bin"}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubeadm: %v: %s", err, output)
	}
	manifest, err := os.ReadFile(filepath.Join(r.folder, "kube-scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// runStaticPod lets kubelet run the static pod until the end of the test. `folder` is the pod's
// /etc/kubernetes.
func (r *Release) runStaticPod(t testing.TB, manifest []byte, folder string) {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Volumes {
		from := pod.Spec.Volumes[i].HostPath
		from.Path = strings.Replace(from.Path, kubeadmFolder, folder, 1)
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	path := r.node.path("manifests", "kube-scheduler.yaml")
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	name := pod.Name + "-" + nodeName
	waitFor(t, podRunningLimit, "kubelet to create the Pod object", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(pod.Namespace).Get(r.ctx, name, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	waitRunning(r.ctx, t, pod.Namespace, name)
}
