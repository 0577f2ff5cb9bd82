package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var memoryByKubelet = []string{"--memory-resource", "device-plugin"}

// DevicePlugin is the real mgpu-device-plugin on the real node, with the rights of deploy/manifests.
type DevicePlugin struct {
	node   *Node
	folder string // cards file and device nodes, state and run folder, log
	major  int    // major number of the cards' device nodes
	port   int
	flags  []string // in addition to those of every test
	binary string   // empty: that of this version
	cards  []TestCard
	mounts []TestMount // of every container with cards
	// variables of every container with cards
	environment map[string]string
	process     *Process
	started     time.Time
}

// devicePluginOn returns a plugin that has not been started. It is stopped at the end of the test.
func devicePluginOn(t testing.TB, node *Node, cards []TestCard, flags ...string) *DevicePlugin {
	t.Helper()
	major, err := unusedMajor()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(node.folder, "plugin")
	if err != nil {
		t.Fatal(err)
	}
	plugin := &DevicePlugin{node: node, folder: folder, major: major, flags: flags, environment: map[string]string{}}
	plugin.writeCards(t, cards)
	t.Cleanup(func() { plugin.end(t) })
	return plugin
}

func (p *DevicePlugin) path(elements ...string) string {
	return filepath.Join(append([]string{p.folder}, elements...)...)
}

func (p *DevicePlugin) cardsFile() string    { return p.path("cards.yaml") }
func (p *DevicePlugin) recordFolder() string { return p.path("state", "allocations") }
func (p *DevicePlugin) specFile() string {
	return filepath.Join(p.node.cdiFolder(), domain+"-mgpu.json")
}

// arguments returns the command line. A later flag replaces an earlier one of the same name.
func (p *DevicePlugin) arguments() []string {
	arguments := []string{"--node-name", nodeName, "--kubeconfig", p.node.plane.kubeconfig(nodeToken),
		"--cards-file", p.cardsFile(), "--state-dir", p.path("state"), "--run-dir", p.path("run"),
		"--cdi-dir", p.node.cdiFolder(), "--runtime-socket", p.node.containerdSocket(),
		"--pod-resources-socket", p.node.podResourcesSocket(),
		"--metrics-bind-address", fmt.Sprint("127.0.0.1:", p.port)}
	for i := 0; i < len(p.flags); i += 2 {
		if strings.Contains(p.flags[i], "=") {
			arguments = append(arguments, p.flags[i])
			i--
			continue
		}
		at := slices.Index(arguments, p.flags[i])
		if at < 0 {
			arguments = append(arguments, p.flags[i:i+2]...)
		} else {
			arguments[at+1] = p.flags[i+1]
		}
	}
	return arguments
}

func (p *DevicePlugin) start(t testing.TB) {
	t.Helper()
	var err error
	if p.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	binary := p.binary
	if binary == "" {
		binary = pluginBinary(t)
	}
	p.started = time.Now()
	p.process, err = startProcess("mgpu-device-plugin", p.path("log"), binary, p.arguments()...)
	if err != nil {
		t.Fatal(err)
	}
}

// end stops the plugin with SIGTERM, as Kubernetes does. The exit code shows crashes and reports of
// sanitizers.
func (p *DevicePlugin) end(t testing.TB) {
	defer os.RemoveAll(p.folder)
	if p.process == nil {
		return
	}
	running := p.process.running()
	if code, ended := p.process.Terminate(endsIn); running && (!ended || code != 0) {
		t.Errorf("mgpu-device-plugin ended with code %d after SIGTERM (in time: %v)", code, ended)
	}
	p.process.Kill()
	if t.Failed() {
		t.Logf("last lines of mgpu-device-plugin:\n%s", p.process.logTail(40))
	}
}

// kill simulates a crash.
func (p *DevicePlugin) kill() { p.process.Kill() }

// startAgain starts the plugin again and waits until kubelet has its devices.
func (p *DevicePlugin) startAgain(t testing.TB) {
	t.Helper()
	p.start(t)
	p.waitReady(t)
	p.waitOffered(t)
}

func (p *DevicePlugin) waitReady(t testing.TB) {
	t.Helper()
	waitFor(t, startsIn, "mgpu-device-plugin to be ready", func() (bool, string) {
		if !p.process.running() {
			t.Fatalf("mgpu-device-plugin ended:\n%s", p.process.logTail(10))
		}
		status, body, err := p.get("/readyz")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, " ", err)
	})
}

// waitOffered waits until kubelet has the devices of this process, and the capacity of the node is that
// of the healthy cards.
func (p *DevicePlugin) waitOffered(t testing.TB) {
	t.Helper()
	p.waitOfferedWith(t, 0, 0)
}

// waitOfferedWith is waitOffered while pods hold these amounts of unhealthy cards.
func (p *DevicePlugin) waitOfferedWith(t testing.TB, heldCore, heldMemory int64) {
	t.Helper()
	core, memory := p.capacity()
	core, memory = core+heldCore, memory+heldMemory
	waitFor(t, 2*time.Minute, fmt.Sprint("the node to offer ", core, " and ", memory), func() (bool, string) {
		if !p.knownToKubelet() {
			return false, "kubelet has not read the list of devices"
		}
		one := p.node.object(t)
		gotCore, gotMemory := one.Status.Allocatable[coreResource], one.Status.Allocatable[memoryResource]
		seen := fmt.Sprint(gotCore.String(), " and ", gotMemory.String(), ", ", one.Annotations[cardsKey])
		return gotCore.Value() == core && gotMemory.Value() == memory && p.announcedIn(one.Annotations[cardsKey]), seen
	})
}

// knownToKubelet returns whether kubelet has read the list of devices, after which it writes its
// checkpoint. A pod that starts earlier is rejected permanently, and the capacity of the node may still
// be that of the previous process.
func (p *DevicePlugin) knownToKubelet() bool {
	written, err := os.Stat(p.node.checkpoint())
	if err != nil || written.ModTime().Before(p.started) {
		return false
	}
	text, _ := os.ReadFile(p.node.checkpoint())
	return !slices.Contains(p.flags, memoryByKubelet[1]) ||
		strings.Contains(string(text), fmt.Sprintf(`%q:["`, memoryResource))
}

// capacity returns the capacity of the healthy cards, in percent and MiB.
func (p *DevicePlugin) capacity() (core, memory int64) {
	for _, card := range p.cards {
		if card.Health == "" {
			core, memory = core+100, memory+card.MemoryMiB
		}
	}
	return core, memory
}

// announcedIn returns whether all cards are in the annotation of the node.
func (p *DevicePlugin) announcedIn(annotation string) bool {
	return !slices.ContainsFunc(p.cards, func(card TestCard) bool {
		health := card.Health
		if health == "" {
			health = "Healthy"
		}
		return !strings.Contains(annotation, fmt.Sprintf(`"index":%d,"uuid":%q`, card.Index, card.UUID)) ||
			!strings.Contains(annotation, health)
	})
}

func (p *DevicePlugin) get(path string) (int, string, error) {
	return read(http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", p.port, path)))
}

func (p *DevicePlugin) metrics(t testing.TB) Metrics {
	t.Helper()
	_, text, err := p.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return readMetrics(text)
}

// records returns the sorted names of the records on disk.
func (p *DevicePlugin) records() []string {
	files, _ := filepath.Glob(filepath.Join(p.recordFolder(), "*.json"))
	return files
}

func (p *DevicePlugin) logText() string {
	text, _ := os.ReadFile(p.path("log"))
	return string(text)
}

func (p *DevicePlugin) pid() string { return fmt.Sprint(p.process.command.Process.Pid) }
