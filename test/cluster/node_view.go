package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const podRunningLimit = 90 * time.Second

// The program in a container. It prints its devices, whether it can open them, and its environment, and
// runs until it receives a signal.
const (
	lookAround = `for d in $(find /dev -type c -o -type b); do
echo "DEVICE $d $(stat -c %t:%T $d) $( (: <$d) 2>&1)"; done
env | sed 's/^/ENV /'
while read -r _ _ _ _ at options _; do echo "MOUNT $at $options"; done </proc/self/mountinfo
echo DONE
`
	stayUntilTold = `trap 'exit 0' TERM
sleep 100000 & wait $!
`
	// The first process of a container gets no signal that it does not handle, except SIGKILL.
	stay = `sleep 100000 & wait $!
`
)

// Devices that runc adds to every container.
var ordinaryDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/console", "/dev/ptmx", "/dev/pts/ptmx", "/dev/pts/0"}

// View is what a container has printed about itself.
type View struct {
	devices     map[string]string // path to "major:minor"
	forbidden   []string          // devices that the container may not open
	environment map[string]string
	mounts      map[string]string // path to options
}

func (v View) String() string {
	return fmt.Sprintf("devices %v, forbidden %v, environment %v", v.devices, v.forbidden, v.mgpuEnvironment())
}

func (v View) mgpuEnvironment() []string {
	var lines []string
	for name, value := range v.environment {
		if strings.HasPrefix(name, "MGPU_") || strings.HasPrefix(name, "NVIDIA_") {
			lines = append(lines, name+"="+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// logsOf returns the log files of a container, one for each start that kubelet keeps.
func (n *Node) logsOf(pod *corev1.Pod, container string) []string {
	folder := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	logs, _ := filepath.Glob(filepath.Join(n.podLogs(), folder, container, "*.log"))
	return logs
}

// startsOf returns the number of starts of a container. It uses the names of kubelet's log files, and
// not the API server.
func (n *Node) startsOf(pod *corev1.Pod, container string) int {
	most := 0
	for _, log := range n.logsOf(pod, container) {
		number, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(log), ".log"))
		most = max(most, number+1)
	}
	return most
}

// logOf returns the output of a container since its latest start.
func (n *Node) logOf(pod *corev1.Pod, container string) string {
	logs := n.logsOf(pod, container)
	if len(logs) == 0 {
		return ""
	}
	latest := slices.MaxFunc(logs, func(a, b string) int { // 9.log comes before 10.log
		return cmp.Or(len(a)-len(b), strings.Compare(a, b))
	})
	text, _ := os.ReadFile(latest)
	var lines []string
	for _, line := range strings.Split(string(text), "\n") {
		// A line has the time, the stream, F for a full line, and the text.
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			lines = append(lines, fields[3])
		}
	}
	return strings.Join(lines, "\n")
}

// viewOf waits until the container has printed its view.
func (n *Node) viewOf(t testing.TB, pod *corev1.Pod, container string) View {
	t.Helper()
	var text string
	waitFor(t, podRunningLimit, container+" of "+pod.Name+" to print its view", func() (bool, string) {
		text = n.logOf(pod, container)
		return strings.Contains(text, "DONE"), text
	})
	return readView(text)
}

func readView(text string) View {
	view := View{devices: map[string]string{}, environment: map[string]string{}, mounts: map[string]string{}}
	for _, line := range strings.Split(text, "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "DEVICE":
			view.readDevice(rest)
		case "ENV":
			name, value, _ := strings.Cut(rest, "=")
			view.environment[name] = value
		case "MOUNT":
			path, options, _ := strings.Cut(rest, " ")
			view.mounts[path] = options
		}
	}
	return view
}

// readDevice reads the line of a device. Opening a device without a driver fails with another error than
// that of the cgroup.
func (v *View) readDevice(line string) {
	path, rest, _ := strings.Cut(line, " ")
	if slices.Contains(ordinaryDevices, path) {
		return
	}
	number, said, _ := strings.Cut(rest, " ")
	v.devices[path] = number
	if strings.Contains(said, "not permitted") || strings.Contains(said, "denied") {
		v.forbidden = append(v.forbidden, path)
	}
}

// runs sets the image and the program of all containers of the pod.
func (b *PodBuilder) runs() *PodBuilder {
	grace := int64(1)
	if b.ignoresTerm {
		grace = 20
	}
	b.pod.Spec.TerminationGracePeriodSeconds = &grace
	b.pod.Spec.DNSPolicy = corev1.DNSDefault
	for _, list := range [][]corev1.Container{b.pod.Spec.InitContainers, b.pod.Spec.Containers} {
		for i := range list {
			list[i].Image, list[i].ImagePullPolicy = nodeImage, corev1.PullNever
			list[i].Command = []string{"sh", "-c", lookAround + stayUntilTold}
			if b.ignoresTerm {
				list[i].Command[2] = lookAround + stay
			}
			if b.end != "" {
				list[i].Command[2] = lookAround + b.end
			}
			if b.script != "" {
				list[i].Command[2] = b.script + lookAround + stayUntilTold
			}
		}
	}
	for i := range b.pod.Spec.InitContainers {
		if one := &b.pod.Spec.InitContainers[i]; one.RestartPolicy == nil {
			one.Command[2] = lookAround
		}
	}
	return b
}

// waitRunning waits until all containers of a pod run.
func waitRunning(ctx context.Context, t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	waitFor(t, podRunningLimit, "pod "+name+" to run", func() (bool, string) {
		pod = get(ctx, t, namespace, name)
		if pod.Status.Phase == corev1.PodFailed {
			t.Fatalf("pod %s failed: %s", name, statusOf(pod))
		}
		return allRun(pod), statusOf(pod) + eventsOf(ctx, pod)
	})
	return pod
}

func allRun(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running == nil {
			return false
		}
	}
	return true
}

// statusOf returns the status of a pod in one line.
func statusOf(pod *corev1.Pod) string {
	said := fmt.Sprintf("%s %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, status := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if waiting := status.State.Waiting; waiting != nil {
			said += fmt.Sprintf("; %s is waiting: %s %s", status.Name, waiting.Reason, waiting.Message)
		}
	}
	return said
}

// eventsOf returns the events of a pod.
func eventsOf(ctx context.Context, pod *corev1.Pod) string { return eventsBy(ctx, pod, "") }

func pluginEventsOf(ctx context.Context, pod *corev1.Pod) string {
	return eventsBy(ctx, pod, "mgpu-device-plugin")
}

// eventsBy returns the events of one component, or of all components if it is "".
func eventsBy(ctx context.Context, pod *corev1.Pod, component string) string {
	events, err := plane.admin.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod.Name})
	if err != nil {
		return err.Error()
	}
	said := ""
	for _, event := range events.Items {
		if component == "" || component == event.Source.Component {
			said += fmt.Sprintf("\n%s %s: %s", event.Source.Component, event.Reason, event.Message)
		}
	}
	return said
}
