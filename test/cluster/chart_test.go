package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The tests of this file render the chart. Those of install_test.go install it.

// The values of a chart with everything in it.
func everything() []string {
	return []string{"--values", repositoryPath("test", "golden", "chart", "everything.values.yaml")}
}

func TestChartRendersTheFilesOfTheRepository(t *testing.T) {
	if os.Getenv("MGPU_HELM_BINARY") == "" {
		t.Skip("MGPU_HELM_BINARY is not set; test/run.sh install sets it")
	}
	folder := t.TempDir()
	if output, err := exec.Command("bash", deployPath("manifests", "render.sh"), folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for name, kept := range map[string]string{
		"mgpu.yaml":       deployPath("manifests", "mgpu.yaml"),
		"README.md":       deployPath("chart", "README.md"),
		"everything.yaml": repositoryPath("test", "golden", "chart", "everything.yaml"),
		"least.yaml":      repositoryPath("test", "golden", "chart", "least.yaml"),
		"loopback.yaml":   repositoryPath("test", "golden", "chart", "loopback.yaml"),
	} {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what the chart renders; deploy/manifests/render.sh writes it", kept)
		}
	}
}

// A GitOps tool renders the chart again and again, without a cluster.
func TestChartDependsOnItsValuesOnly(t *testing.T) {
	forbidden := regexp.MustCompile(`\b(lookup|rand[A-Z]\w+|gen[A-Z]\w+|uuidv4|now|htpasswd|bcrypt|getHostByName)\b|\bdate\w* `)
	err := filepath.WalkDir(deployPath("chart", "templates"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, action := range regexp.MustCompile(`(?s)\{\{-? *([^/].*?)\}\}`).FindAllString(string(text), -1) {
			if found := forbidden.FindString(action); found != "" {
				t.Errorf("%s uses %q in %s", path, found, action)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for flag, want := range map[string]string{
		"extender.replicas=two":         "at '/extender/replicas': got string, want integer",
		"extender.replicas=0":           "at '/extender/replicas': minimum: got 0, want 1",
		"extender.replica=2":            "at '/extender': additional properties 'replica' not allowed",
		"extenders.replicas=2":          "additional properties 'extenders' not allowed",
		"extender.image.digest=abcd":    `extender.image.digest: is "abcd"; expected sha256: and 64 hexadecimal digits, or nothing`,
		"extender.image.repository=a@b": `extender.image.repository: is "a@b"; expected the name of an image without tag and digest`,
		"test.image.repository=busybox:1": `test.image.repository: is "busybox:1"; expected the name of an image without its tag, ` +
			"which is test.image.tag",
		"extender.image.tag=a/b":                  `extender.image.tag: is "a/b"; expected a tag, or nothing`,
		"extender.service.clusterIP=extender":     `extender.service.clusterIP: is "extender"; expected an IP address of`,
		"extender.service.port=70000":             "at '/extender/service/port': maximum: got 70,000, want 65,535",
		"extender.prometheus.url=prometheus:9090": `extender.prometheus.url: is "prometheus:9090"; expected http:// or https:// with a host`,
		"extender.prometheus.caSecretName=ca":     `extender.prometheus.caSecretName: is "ca", but extender.prometheus.url is ""; expected an https:// address`,
		"extender.extraArgs={http-threads}":       `extender.extraArgs[0]: is "http-threads"; expected a flag with its value, as in --log-level=debug`,
		"extender.certificates.source=vault":      "at '/extender/certificates/source': value must be one of 'extender', 'secret', 'certManager'",
		"extender.certificates.clientNames=null":  "extender.certificates.clientNames: is empty; expected the common name of kube-scheduler's client",
		"extender.certificates.source=certManager": "extender.certificates.issuerRef.name: is empty; " +
			"extender.certificates.source=certManager expects the name of an Issuer",
		"extender.leaderElection.renewDeadlineSeconds=15": "extender.leaderElection.leaseDurationSeconds: is 15; " +
			"expected more than renewDeadlineSeconds, which is 15",
		"extender.leaderElection.retrySeconds=10": "extender.leaderElection.renewDeadlineSeconds: is 10; " +
			"expected more than retrySeconds, which is 10",
		"devicePlugin.isolation=mig":        "at '/devicePlugin/isolation': value must be one of 'none', 'intercept', 'mps', 'driver', 'auto'",
		"devicePlugin.cardsFile=cards.yaml": `devicePlugin.cardsFile: is "cards.yaml"; expected an absolute path on the node`,
		"devicePlugin.stateDir=/var/lib/mgpu/": `devicePlugin.stateDir: is "/var/lib/mgpu/"; expected an absolute path on the node ` +
			"without a / at its end",
		"devicePlugin.maxUnavailable=-1": "at '/devicePlugin/maxUnavailable'",
		"devicePlugin.injection=device-nodes": "devicePlugin.injection: is device-nodes; expected no such value, since " +
			"containers get their cards by CDI alone",
		"devicePlugin.tolerations[0].operator=Is": "at '/devicePlugin/tolerations/0/operator': value must be one of",
		"resourceDomain=GPUs":                     `resourceDomain: is "GPUs"; expected a DNS name with a dot`,
		"listenAddress=127.0.0.1":                 "at '/listenAddress': value must be one of '0.0.0.0', '::'",
		"image.registry=": `extender.image.repository: is "mgpu-extender", which no registry has; expected image.registry, as in ` +
			"registry.example.com/mgpu, to be where the images of mgpu have been pushed, or extender.image.pullPolicy=Never",
		"image.registry=,extender.image.pullPolicy=Never": `devicePlugin.image.repository: is "mgpu-device-plugin", which no ` +
			"registry has",
		"image.registry=,extender.image.pullPolicy=Never,devicePlugin.enabled=false,scheduler.image.repository=kube-scheduler": "" +
			`scheduler.image.repository: is "kube-scheduler", which no registry has`,
		"image.registry=https://registry.test": `image.registry: is "https://registry.test"; expected a registry, and perhaps a path`,
		"image.registry=registry.test/":        `image.registry: is "registry.test/"; expected a registry, and perhaps a path`,
		"scheduler.schedulerName=default-scheduler": "scheduler.schedulerName: " +
			"is default-scheduler, which is the name of the cluster's own kube-scheduler; expected another name",
		"extender.loopback=true,metrics.serviceMonitor.enabled=true,metrics.devicePluginSecretName=a": "extender.loopback: is " +
			"true, but Prometheus cannot reach the loopback addresses of nodes",
		"devicePlugin.compute=mps,devicePlugin.isolation=none": "devicePlugin.compute: is mps; devicePlugin.isolation=none expects " +
			"none, since that needs isolation mps, intercept, driver or auto",
		"devicePlugin.compute=fixed,devicePlugin.isolation=driver": "devicePlugin.compute: is fixed; devicePlugin.isolation=driver " +
			"expects none, since that needs isolation intercept or auto",
		"mps.exclusive=true": "mps.exclusive: is true, but no card has MPS; expected devicePlugin.compute, devicePlugin.isolation, " +
			"or that of a profile, to be mps",
		"mps.exclusive=true,mps.partsWithoutLimits=true": "mps.partsWithoutLimits: is true; mps.exclusive=true expects false, " +
			"since it keeps programs without MPS off the cards",
		"profiles[0].computeFactor=2":                     "at '/profiles/0': missing property 'name'",
		"profiles[0].name=a,profiles[0].computeFactor=0":  "at '/profiles/0/computeFactor': minimum: got 0, want 1",
		"profiles[0].name=a,profiles[0].computeFactor=11": "at '/profiles/0/computeFactor': maximum: got 11, want 10",
		"profiles[0].name=a,profiles[0].memoryFactor=2":   "at '/profiles/0': additional properties 'memoryFactor' not allowed",
		"profiles[0].name=a,profiles[0].isolation=mig":    "at '/profiles/0/isolation': value must be one of 'none', 'intercept', 'mps', 'driver', 'auto'",
		"profiles[0].name=a,profiles[0].policy=random":    `profiles[0].policy: is "random"; expected equilibrium, binpack or spread`,
		"extender.policy=fgd": `extender.policy: is "fgd"; expected equilibrium, binpack or spread, or ` +
			"<node policy>/<card policy>; the published policies are only in mgpu-sim trace",
		"profiles[0].name=a b":                  `profiles[0].name: is "a b"; expected the value of a label`,
		"profiles[0].name=a,profiles[1].name=a": `profiles[1].name: is "a"; expected a name that no other profile has`,
		"metrics.serviceMonitor.enabled=true": "metrics.devicePluginSecretName: is empty; metrics.serviceMonitor.enabled=true " +
			"expects a Secret with tls.crt, tls.key and ca.crt, because Prometheus sends a token",
	} {
		t.Run(flag, func(t *testing.T) {
			_, err := renderChart(t, "--set", flag)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("helm says %v, want %q", err, want)
			}
		})
	}
}

func TestChartRefusesOldVersionsOfKubernetes(t *testing.T) {
	for version, want := range map[string]string{
		"1.24.0": "chart requires kubeVersion: >=1.25.9-0 which is incompatible with Kubernetes v1.24.0",
		"1.29.0": "policies.enabled: is true, but ValidatingAdmissionPolicies need Kubernetes 1.30 and the cluster has v1.29.0",
	} {
		if _, err := renderChart(t, "--kube-version", version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s helm says %v, want %q", version, err, want)
		}
	}
	if _, err := renderChart(t, "--kube-version", "1.29.0", "--set", "policies.enabled=false"); err != nil {
		t.Errorf("without policies helm says %v", err)
	}
}

// The objects contain the files as they are, though these have templates of Prometheus and Grafana.
func TestChartHasTheFilesForMonitoring(t *testing.T) {
	objects := chartObjects(t, "--set", "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true",
		"--set", "metrics.prometheusRule.labels.release=prometheus")
	file := func(name string) []byte {
		text, err := os.ReadFile(deployPath("chart", "monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	rule := byName(objects, "PrometheusRule")["PrometheusRule mgpu in "+releaseNamespace]
	if want := readObjects(t, string(file("alerts.yaml")))[0].Object; !reflect.DeepEqual(rule.Object["spec"], any(want)) {
		t.Errorf("the PrometheusRule is %v, want %v", rule.Object["spec"], want)
	}
	if labels := rule.GetLabels(); labels["release"] != "prometheus" {
		t.Errorf("the labels of the PrometheusRule are %v", labels)
	}
	dashboard := byName(objects, "ConfigMap")["ConfigMap mgpu-dashboard in "+releaseNamespace]
	text, _, _ := unstructured.NestedString(dashboard.Object, "data", "mgpu.json")
	if text != strings.TrimSuffix(string(file("dashboard.json")), "\n") || dashboard.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("the ConfigMap has the labels %v and %d bytes", dashboard.GetLabels(), len(text))
	}
	for name := range byName(chartObjects(t), "PrometheusRule", "ConfigMap") {
		if !strings.Contains(name, "scheduler") {
			t.Errorf("the chart has %s without the values for it", name)
		}
	}
}

func TestChartTakesImagesByDigestOrTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for flags, want := range map[string]string{
		"extender.image.tag=v2":                                      "registry.test/mgpu/mgpu-extender:v2",
		"image.registry=localhost:5000":                              "localhost:5000/mgpu-extender:0.1.0",
		"image.registry=,extender.image.pullPolicy=Never":            "mgpu-extender:0.1.0",
		"image.registry=,extender.image.repository=library/e":        "library/e:0.1.0",
		"extender.image.repository=library/e":                        "registry.test/mgpu/library/e:0.1.0",
		"extender.image.repository=registry.example.com:5000/mgpu/e": "registry.example.com:5000/mgpu/e:0.1.0",
		"extender.image.repository=localhost/e":                      "localhost/e:0.1.0",
		"extender.image.digest=" + digest:                            "registry.test/mgpu/mgpu-extender@" + digest,
		"extender.image.tag=v2,extender.image.digest=" + digest:      "registry.test/mgpu/mgpu-extender@" + digest,
	} {
		if got := imageOf(t, "mgpu-extender", "--set", "devicePlugin.enabled=false,"+flags); got != want {
			t.Errorf("with %s the image is %v, want %s", flags, got, want)
		}
	}
}

// imageOf returns the image of a Deployment.
func imageOf(t *testing.T, name string, flags ...string) any {
	t.Helper()
	deployment := byName(chartObjects(t, flags...), "Deployment")["Deployment "+name+" in "+releaseNamespace]
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	return containers[0].(map[string]any)["image"]
}

// Distributions append something to the version, and have no image of kube-scheduler with it.
func TestChartRunsTheSchedulerOfTheVersionOfTheCluster(t *testing.T) {
	for version, want := range map[string]string{
		"v1.36.3":               "registry.k8s.io/kube-scheduler:v1.36.3",
		"v1.36.3+k3s1":          "registry.k8s.io/kube-scheduler:v1.36.3",
		"1.34.10-eks-abcdef0":   "registry.k8s.io/kube-scheduler:v1.34.10",
		"v1.35.1-gke.1000000+x": "registry.k8s.io/kube-scheduler:v1.35.1",
	} {
		if got := imageOf(t, "mgpu-scheduler", "--kube-version", version); got != want {
			t.Errorf("with %s the image is %v, want %s", version, got, want)
		}
	}
	flags := []string{"--set", "scheduler.image.tag=v1.36.0,scheduler.image.repository=kube-scheduler"}
	if got, want := imageOf(t, "mgpu-scheduler", flags...), "registry.test/mgpu/kube-scheduler:v1.36.0"; got != want {
		t.Errorf("with %v the image is %v, want %s", flags, got, want)
	}
}

func TestChartRunsNoSchedulerWhereThatOfTheClusterCallsTheExtender(t *testing.T) {
	for _, flags := range []string{"scheduler.enabled=false", "extender.loopback=true"} {
		for _, object := range chartObjects(t, "--set", flags) {
			if name := object.GetName(); strings.HasPrefix(name, "mgpu-scheduler") || strings.HasSuffix(name, "this-scheduler") {
				t.Errorf("with %s the chart has the %s", flags, nameOf(object))
			}
		}
	}
}

// An installation by hand applies what has this label, and runs the programs itself.
func TestChartLabelsWhatAnInstallationByHandNeeds(t *testing.T) {
	text, err := os.ReadFile(deployPath("manifests", "mgpu.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile("^(NetworkPolicy|PodDisruptionBudget|ConfigMap|Service|DaemonSet|Deployment|FlowSchema|Namespace) ")
	scheduler := regexp.MustCompile(" mgpu-(scheduler|cards-need-this-scheduler)")
	for _, object := range readObjects(t, string(text)) {
		name := nameOf(object)
		want := !programs.MatchString(name) && !scheduler.MatchString(name)
		if got := object.GetLabels()["app.kubernetes.io/component"] == "access"; got != want {
			t.Errorf("%s has the label: %v, want %v", name, got, want)
		}
	}
}

func TestChartHasTheSchedulerConfigurationOfDeploy(t *testing.T) {
	configMap := byName(chartObjects(t), "ConfigMap")["ConfigMap mgpu-scheduler in "+releaseNamespace]
	text, _, _ := unstructured.NestedString(configMap.Object, "data", "kube-scheduler.yaml")
	deployed, err := os.ReadFile(deployPath("scheduler", "kube-scheduler-tls.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := extenderEntry(t, text), extenderEntry(t, string(deployed))
	for _, entry := range []map[string]any{got, want} {
		delete(entry, "urlPrefix")
		delete(entry, "tlsConfig")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the extender of the chart's kube-scheduler is %v, want that of deploy/scheduler: %v", got, want)
	}
}

func extenderEntry(t *testing.T, text string) map[string]any {
	t.Helper()
	entries, _, _ := unstructured.NestedSlice(readObjects(t, text)[0].Object, "extenders")
	if len(entries) != 1 {
		t.Fatalf("%d extenders in %s", len(entries), text)
	}
	return entries[0].(map[string]any)
}

// Unknown fields, wrong types, and expressions of policies that do not compile are errors.
func TestChartObjectsAreAcceptedByTheAPIServer(t *testing.T) {
	ctx := context.Background()
	if err := plane.createNamespace(ctx, releaseNamespace); err != nil && !strings.Contains(err.Error(), "exists") {
		t.Fatal(err)
	}
	foreign := []string{"Certificate", "ServiceMonitor"} // of operators that this cluster does not have
	objects := chartObjects(t, append(everything(), "--set", "extender.service.clusterIP="+extenderService)...)
	for _, object := range append(objects, chartObjects(t, "--set", "extender.loopback=true")...) {
		if slices.Contains(foreign, object.GetKind()) {
			continue
		}
		if err := tryObject(t, object); err != nil {
			t.Error(err)
		}
	}
}

// The profile restricted is the strictest of the Pod Security Standards.
func TestChartPodsKeepTheRestrictedProfile(t *testing.T) {
	ctx := context.Background()
	namespace := newNamespace(ctx, t)
	patchNamespace(ctx, t, namespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	// The API server admits pods by a cache, in which the label appears later.
	waitFor(t, time.Minute, "a pod that lacks all of the profile to be refused", func() (bool, string) {
		_, err := plane.admin.CoreV1().Pods(namespace).Create(ctx, newPod(namespace, "try").container("c", "", "").build(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), `violates PodSecurity "restricted`), fmt.Sprint(err)
	})
	objects := byName(chartObjects(t, everything()...), "Deployment", "Pod")
	if len(objects) != 3 {
		t.Fatalf("the chart has %d Deployments and Pods, want extender, scheduler and test", len(objects))
	}
	for name, object := range objects {
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": object.Object["spec"]}}
		if template, found, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec"); found {
			pod.Object["spec"] = template
		}
		unstructured.RemoveNestedField(pod.Object, "spec", "serviceAccountName")
		pod.SetName("try")
		pod.SetNamespace(namespace)
		if err := tryObject(t, pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func patchNamespace(ctx context.Context, t *testing.T, name, patch string) {
	t.Helper()
	_, err := plane.admin.CoreV1().Namespaces().Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChartHasTheValuesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(deployPath("chart", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := readObjects(t, string(text))[0].Object
	pages, err := filepath.Glob(deployPath("*.md"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range pages {
		document, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range valueName.FindAllStringSubmatch(string(document), -1) {
			path := strings.Split(name[1], ".")
			if slices.Contains([]string{"go", "yaml"}, path[len(path)-1]) {
				continue // a file
			}
			count++
			if _, found, err := unstructured.NestedFieldNoCopy(values, path...); !found || err != nil {
				t.Errorf("deploy/%s names the value %s, which the chart does not have", filepath.Base(page), name[1])
			}
		}
	}
	if count < 40 {
		t.Errorf("the pages name %d values only", count)
	}
}

// valueName matches a value of the chart in a page.
var valueName = regexp.MustCompile("(?:`|--set )" +
	`((?:extender|devicePlugin|mps|scheduler|policies|migration|networkPolicy|metrics|test)(?:\.[A-Za-z]+)+)`)

// Another device plugin may give out the cards of a node with GPUs.
func TestChartChoosesNodesByTheirLabels(t *testing.T) {
	own, nfd := domain+"/mgpu-node", "feature.node.kubernetes.io/pci-10de.present"
	plugin := "nvidia.com/gpu.deploy.device-plugin" // of the GPU operator
	for _, node := range []struct {
		labels map[string]string
		chosen bool
	}{
		{nil, false},
		{map[string]string{own: "true"}, true},
		{map[string]string{own: "false"}, false},
		{map[string]string{nfd: "true", "nvidia.com/gpu.present": "true"}, false},
		{map[string]string{own: "true", "nvidia.com/gpu.present": "true", plugin: "false"}, true},
		{map[string]string{own: "true", "nvidia.com/gpu.present": "true", plugin: "true"}, false},
	} {
		for _, terms := range cardNodeTerms(t) {
			if got := matchesAny(terms, node.labels); got != node.chosen {
				t.Errorf("a node with the labels %v: chosen is %v, want %v", node.labels, got, node.chosen)
			}
		}
	}
}

// cardNodeTerms returns the terms of the device plugin and of MPS.
func cardNodeTerms(t *testing.T) [][]corev1.NodeSelectorTerm {
	t.Helper()
	var all [][]corev1.NodeSelectorTerm
	for _, object := range byName(chartObjects(t, "--set", "devicePlugin.isolation=mps"), "DaemonSet") {
		all = append(all, requiredTerms(t, object))
	}
	if len(all) != 2 {
		t.Fatalf("the chart has %d DaemonSets, want those of the device plugin and of MPS", len(all))
	}
	return all
}

func TestChartRunsTheDaemonsOfMPSWhereTheyMayBeUsed(t *testing.T) {
	for flags, want := range map[string]bool{
		"devicePlugin.isolation=none":                           false,
		"devicePlugin.isolation=driver":                         false,
		"devicePlugin.isolation=mps":                            true,
		"devicePlugin.isolation=auto":                           false,
		"devicePlugin.isolation=auto,devicePlugin.compute=mps":  true,
		"profiles[0].name=a,profiles[0].isolation=mps":          true,
		"profiles[0].name=a,profiles[0].minimumCore=10":         false,
		"devicePlugin.isolation=mps,devicePlugin.enabled=false": false,
	} {
		text, err := renderChart(t, "--set", flags)
		if err != nil {
			t.Fatal(err)
		}
		sets := byName(readObjects(t, text), "DaemonSet")
		if _, runs := sets["DaemonSet mgpu-mps in mgpu-system"]; runs != want {
			t.Errorf("%s: the chart has mgpu-mps: %v, want %v", flags, runs, want)
		}
		if strings.Contains(text, "--mps-service") != want {
			t.Errorf("%s: the device plugin watches daemons; want %v", flags, want)
		}
	}
}

// A mount of the plugin must be there for the container runtime.
func TestChartPassesMountsOnWhereTheLibraryMayBeUsed(t *testing.T) {
	for flags, want := range map[string]bool{
		"devicePlugin.isolation=none":      false,
		"devicePlugin.isolation=mps":       false,
		"devicePlugin.isolation=intercept": true,
		"devicePlugin.isolation=auto":      true,
		"devicePlugin.isolation=none,profiles[0].name=a,profiles[0].isolation=intercept": true,
		"devicePlugin.isolation=none,profiles[0].name=a,profiles[0].isolation=driver":    false,
	} {
		text, err := renderChart(t, "--set", flags)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "mountPropagation: Bidirectional"); got != want {
			t.Errorf("%s: mounts are passed on: %v, want %v", flags, got, want)
		}
	}
}

// Nodes require more than the extender where shares are enforced, and profiles require more again.
func TestChartTestsAShareThatEveryNodeAccepts(t *testing.T) {
	for flags, want := range map[string]string{
		"devicePlugin.isolation=none":                                                     "1 256",
		"devicePlugin.isolation=none,extender.minCore=0":                                  "1 256",
		"devicePlugin.isolation=none,extender.minMemoryMiB=2000":                          "1 2000",
		"devicePlugin.isolation=none,devicePlugin.minMemoryMiB=300":                       "1 300",
		"devicePlugin.isolation=driver":                                                   "1 1024",
		"devicePlugin.isolation=mps":                                                      "3 1024",
		"devicePlugin.isolation=auto":                                                     "1 1024",
		"devicePlugin.isolation=auto,devicePlugin.compute=mps":                            "3 1024",
		"devicePlugin.isolation=mps,extender.minCore=7":                                   "7 1024",
		"profiles[0].name=a,profiles[0].isolation=mps,profiles[0].computeFactor=2":        "5 1024",
		"profiles[0].name=a,profiles[0].minimumCore=10,profiles[0].minimumMemoryMiB=3000": "10 3000",
	} {
		pod := byName(chartObjects(t, "--set", flags), "Pod")["Pod mgpu-test-share in mgpu-system"]
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		limits, _, _ := unstructured.NestedStringMap(containers[0].(map[string]any), "resources", "limits")
		if got := limits[domain+"/mgpu-core"] + " " + limits[domain+"/mgpu-memory"]; got != want {
			t.Errorf("%s: the pod of helm test requests %s, want %s", flags, got, want)
		}
	}
}

func TestChartPassesThatPartsHaveNoLimits(t *testing.T) {
	for flags, want := range map[string]bool{"mps.partsWithoutLimits=false": false, "mps.partsWithoutLimits=true": true} {
		text, err := renderChart(t, "--set", "devicePlugin.isolation=mps,"+flags)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "--mps-parts-without-limits") != want {
			t.Errorf("%s: the device plugin has the flag: %v, want %v", flags, !want, want)
		}
	}
}

// flagsWithoutValue finds flags of the programs that have no value.
var flagsWithoutValue = regexp.MustCompile(`(?m)^\s*- "?--[a-z0-9-]+="?$`)

// previousValues returns the values of the chart of the commit in previous-chart, which a shallow clone does not have.
func previousValues(t testing.TB) []byte {
	t.Helper()
	commit, err := os.ReadFile("previous-chart")
	if err != nil {
		t.Fatal(err)
	}
	of := strings.TrimSpace(string(commit)) + ":deploy/chart/values.yaml"
	values, err := exec.Command("git", "-C", repositoryPath(), "show", of).Output()
	if err != nil {
		t.Skipf("git show %s: %v", of, err)
	}
	return values
}

// The values of --reuse-values are those that the previous chart had, also its defaults.
func TestChartRendersWithTheValuesOfThePreviousVersion(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "chart")
	if err := os.CopyFS(chart, os.DirFS(deployPath("chart"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(chart, "values.yaml"), previousValues(t), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		{},
		{"--set", "extender.loopback=true"},
		{"--set", "extender.prometheus.url=http://prometheus:9090"},
		{"--set", "devicePlugin.isolation=mps,scheduler.enabled=true,scheduler.image.tag=v1.36.3"},
		{"--set", "extender.certificates.source=certManager,extender.certificates.issuerRef.name=mgpu"},
		{"--set", "metrics.serviceMonitor.enabled=true,metrics.devicePluginSecretName=metrics"},
		{"--set", "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true"},
		{"--set", "profiles[0].name=a,profiles[0].isolation=mps"},
	} {
		text, err := renderChartAt(t, chart, flags...)
		if err != nil {
			t.Errorf("%v: %v", flags, err)
		}
		for _, flag := range flagsWithoutValue.FindAllString(text, -1) {
			t.Errorf("%v: the chart has %s, want a value, or no flag", flags, flag)
		}
	}
}
