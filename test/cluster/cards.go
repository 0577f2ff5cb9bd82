package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"
)

const controlMinor = 255 // minor number of the device node that every container gets

// TestCard is a card of a cards file. Its device nodes exist and have different numbers.
type TestCard struct {
	Index     int           `json:"index"`
	UUID      string        `json:"uuid"`
	Model     string        `json:"model"`
	MemoryMiB int64         `json:"memoryMiB"`
	Health    string        `json:"health,omitempty"`
	Devices   []TestDevice  `json:"devices"`
	Processes []TestProcess `json:"processes,omitempty"`
}

// TestProcess is a process as a driver reports it.
type TestProcess struct {
	Pid       int   `json:"pid"`
	MemoryMiB int64 `json:"memoryMiB"`
	SMPercent int   `json:"smPercent"`
}

// TestMount is a mount of a cards file, which is read-only unless it says so.
type TestMount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      *bool  `json:"readOnly,omitempty"`
}

type TestDevice struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath"`
}

func v100(index int) TestCard { return cardOf(index, "Tesla V100-SXM2-32GB", cardMemoryMiB) }

// cardOf returns a card. Its UUID depends on the index only.
func cardOf(index int, model string, memoryMiB int64) TestCard {
	return TestCard{Index: index, UUID: fmt.Sprintf("GPU-%08d", index), Model: model, MemoryMiB: memoryMiB}
}

func v100s(count int) []TestCard {
	cards := make([]TestCard, count)
	for i := range cards {
		cards[i] = v100(i)
	}
	return cards
}

func (c TestCard) containerPath() string { return fmt.Sprintf("/dev/nvidia%d", c.Index) }

// unusedMajor returns a major device number without a driver. An attempt to open such a device fails
// with another error than that of the cgroup.
func unusedMajor() (int, error) {
	text, err := os.ReadFile("/proc/devices")
	if err != nil {
		return 0, err
	}
	for major := 240; major < 255; major++ {
		if !strings.Contains(string(text), fmt.Sprintf("\n%3d ", major)) {
			return major, nil
		}
	}
	return 0, fmt.Errorf("/proc/devices leaves no number free for local use")
}

// writeCards makes the device nodes, and replaces the cards file by a rename.
func (p *DevicePlugin) writeCards(t testing.TB, cards []TestCard) {
	t.Helper()
	control := TestDevice{"/dev/nvidiactl", p.path("devices", "nvidiactl")}
	p.makeNode(t, control.HostPath, controlMinor)
	for i, card := range cards {
		host := p.path("devices", fmt.Sprint("nvidia", card.Index))
		p.makeNode(t, host, card.Index)
		cards[i].Devices = []TestDevice{{card.containerPath(), host}}
	}
	text, err := yaml.Marshal(map[string]any{
		"cards": cards, "shared": map[string]any{"devices": []TestDevice{control}, "environment": p.environment,
			"mounts": append([]TestMount{}, p.mounts...)}})
	if err != nil {
		t.Fatal(err)
	}
	p.cards = cards
	p.writeCardsText(t, string(text))
}

func (p *DevicePlugin) writeCardsText(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(p.path("cards.new"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.path("cards.new"), p.cardsFile()); err != nil {
		t.Fatal(err)
	}
}

func (p *DevicePlugin) makeNode(t testing.TB, path string, minor int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mknod(path, syscall.S_IFCHR|0o666, p.major<<8|minor)
	if err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// numberOf returns a device number as stat prints it: major and minor in hexadecimal.
func (p *DevicePlugin) numberOf(minor int) string { return fmt.Sprintf("%x:%x", p.major, minor) }
