package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// deployPath returns the path of a file in deploy/.
func deployPath(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", "deploy"}, elements...)...)
}

// SchedulerSetup has the changes of a test to a configuration of deploy/scheduler.
type SchedulerSetup struct {
	configuration     string // name of a file in deploy/scheduler/
	configurationPath string // a file with the extender's address, instead of both above and below
	extenderURL       string
	schedulerName     string            // empty: default-scheduler
	tls               map[string]string // members of tlsConfig
	stock             bool              // without extenders
	filterOnly        bool              // without the verbs prioritize, preempt and bind
	ranksNonGPU       bool              // with an entry that ranks nodes for pods without cards
	percentage        int               // percentageOfNodesToScore; 0: the file's
	elects            bool              // it elects a leader, with the default settings
	gates             string            // feature gates
}

func (s SchedulerSetup) kind() string {
	if s.stock {
		return "without"
	}
	return "with"
}

// SchedulerCommand starts a real kube-scheduler with a fixed configuration and port.
type SchedulerCommand struct {
	name      string
	logPath   string
	binary    string
	port      int
	arguments []string
	variables []string // of the environment
}

func (c *ControlPlane) schedulerCommand(t testing.TB, setup SchedulerSetup) SchedulerCommand {
	t.Helper()
	name := "kube-scheduler" + setup.schedulerName
	configuration := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(configuration, c.renderScheduler(t, setup), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	var gates []string
	if setup.gates != "" {
		gates = []string{"--feature-gates", setup.gates}
	}
	return SchedulerCommand{name: name, logPath: filepath.Join(t.TempDir(), name+".log"),
		binary: filepath.Join(c.binaries, "kube-scheduler"), port: port, variables: schedulerVariables(t),
		arguments: append(gates, "--config", configuration, "--v", "2", "--bind-address", "127.0.0.1",
			"--secure-port", fmt.Sprint(port), "--cert-dir", filepath.Join(c.folder, "pki"))}
}

func (s SchedulerCommand) start() (*Process, error) {
	return startProcess(s.name, s.logPath, "env", slices.Concat(s.variables, []string{s.binary}, s.arguments)...)
}

// schedulerVariables are those of deploy/scheduler/kubeadm.
func schedulerVariables(t testing.TB) (variables []string) {
	t.Helper()
	text, err := os.ReadFile(deployPath("scheduler", "kubeadm", "cluster-configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var configuration struct {
		Scheduler struct{ ExtraEnvs []corev1.EnvVar }
	}
	if err := yaml.Unmarshal(text, &configuration); err != nil {
		t.Fatal(err)
	}
	for _, variable := range configuration.Scheduler.ExtraEnvs {
		variables = append(variables, variable.Name+"="+variable.Value)
	}
	return variables
}

// startScheduler starts a real kube-scheduler that runs until the end of the test.
func (c *ControlPlane) startScheduler(t testing.TB, setup SchedulerSetup) *Process {
	t.Helper()
	command := c.schedulerCommand(t, setup)
	process, err := command.start()
	if err != nil {
		t.Fatal(err)
	}
	process.endWithTest(t)
	waitFor(t, 60*time.Second, command.name+" to listen", func() (bool, string) {
		if !process.running() {
			t.Fatalf("%s ended:\n%s", command.name, process.logTail(10))
		}
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", command.port))
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
	return process
}

// renderScheduler returns the configuration with the addresses of this cluster.
func (c *ControlPlane) renderScheduler(t testing.TB, setup SchedulerSetup) []byte {
	t.Helper()
	path := setup.configurationPath
	if path == "" {
		path = deployPath("scheduler", setup.configuration)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var configuration map[string]any
	if err := yaml.UnmarshalStrict(text, &configuration); err != nil {
		t.Fatal(err)
	}
	// The default limit of the client, 50 requests per second, would hide races.
	configuration["clientConnection"] = map[string]any{
		"kubeconfig": c.kubeconfig(schedulerToken), "qps": 1000, "burst": 1000}
	configuration["leaderElection"] = map[string]any{"leaderElect": setup.elects}
	if setup.stock {
		delete(configuration, "extenders")
	}
	if setup.percentage != 0 {
		configuration["percentageOfNodesToScore"] = setup.percentage
	}
	if setup.schedulerName != "" {
		configuration["profiles"] = []any{map[string]any{"schedulerName": setup.schedulerName}}
	}
	entries, _ := configuration["extenders"].([]any)
	if setup.ranksNonGPU {
		entries = append(entries, map[string]any{"prioritizeVerb": "prioritize-non-gpu", "weight": 200,
			"httpTimeout": "10s", "nodeCacheCapable": true, "ignorable": true})
		configuration["extenders"] = entries
	}
	for _, entry := range entries {
		extender := entry.(map[string]any)
		if setup.configurationPath == "" {
			extender["urlPrefix"] = setup.extenderURL
		}
		for member, value := range setup.tls {
			extender["tlsConfig"].(map[string]any)[member] = value
		}
		if setup.filterOnly {
			for _, verb := range []string{"prioritizeVerb", "preemptVerb", "bindVerb", "weight"} {
				delete(extender, verb)
			}
		}
	}
	rendered, err := yaml.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}
