package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodBuilder builds a pod.
type PodBuilder struct {
	pod         corev1.Pod
	ignoresTerm bool
	end         string // the last command of all containers; empty: they run until they get a signal
	script      string // before the view
}

func newPod(namespace, name string) *PodBuilder {
	grace, no := int64(30), false
	return &PodBuilder{pod: corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no},
	}}
}

// container returns a container. Amounts that are "" are not requested.
func container(name, core, memory string) corev1.Container {
	limits := corev1.ResourceList{}
	if core != "" {
		limits[coreResource] = resource.MustParse(core)
	}
	if memory != "" {
		limits[memoryResource] = resource.MustParse(memory)
	}
	return corev1.Container{Name: name, Image: "none",
		Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}
}

func (b *PodBuilder) container(name, core, memory string) *PodBuilder {
	b.pod.Spec.Containers = append(b.pod.Spec.Containers, container(name, core, memory))
	return b
}

// share adds a container named c0, c1, ...
func (b *PodBuilder) share(core, memoryMiB int) *PodBuilder {
	return b.container(fmt.Sprintf("c%d", len(b.pod.Spec.Containers)), fmt.Sprint(core), fmt.Sprint(memoryMiB))
}

// wholeCards adds a container that requests whole cards.
func (b *PodBuilder) wholeCards(cards int) *PodBuilder {
	return b.container(fmt.Sprintf("c%d", len(b.pod.Spec.Containers)), fmt.Sprint(cards*100), "")
}

func (b *PodBuilder) initShare(core, memoryMiB int) *PodBuilder {
	name := fmt.Sprintf("i%d", len(b.pod.Spec.InitContainers))
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers,
		container(name, fmt.Sprint(core), fmt.Sprint(memoryMiB)))
	return b
}

// sidecar adds a restartable init container.
func (b *PodBuilder) sidecar(core, memoryMiB int) *PodBuilder {
	b.initShare(core, memoryMiB)
	always := corev1.ContainerRestartPolicyAlways
	b.pod.Spec.InitContainers[len(b.pod.Spec.InitContainers)-1].RestartPolicy = &always
	return b
}

// cpu adds a CPU request to the first container.
func (b *PodBuilder) cpu(amount string) *PodBuilder {
	requests := b.pod.Spec.Containers[0].Resources.Requests.DeepCopy()
	requests[corev1.ResourceCPU] = resource.MustParse(amount)
	b.pod.Spec.Containers[0].Resources.Requests = requests
	return b
}

// ignoringTermination lets the containers ignore SIGTERM, with a grace period of 20 seconds.
func (b *PodBuilder) ignoringTermination() *PodBuilder {
	b.ignoresTerm = true
	return b
}

// running lets the containers run these commands of the shell before they print their view.
func (b *PodBuilder) running(script string) *PodBuilder {
	b.script = script
	return b
}

// endingWith lets the containers end with this code after they have printed their view. Nothing starts them again.
func (b *PodBuilder) endingWith(code int) *PodBuilder {
	b.end = fmt.Sprint("exit ", code)
	b.pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return b
}

func (b *PodBuilder) annotation(key, value string) *PodBuilder {
	if b.pod.Annotations == nil {
		b.pod.Annotations = map[string]string{}
	}
	b.pod.Annotations[key] = value
	return b
}

func (b *PodBuilder) priorityClass(name string) *PodBuilder {
	b.pod.Spec.PriorityClassName = name
	return b
}

func (b *PodBuilder) scheduler(name string) *PodBuilder {
	b.pod.Spec.SchedulerName = name
	return b
}

// on adds a node selector for one node.
func (b *PodBuilder) on(node string) *PodBuilder {
	b.pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
	return b
}

// graceless lets the pod be removed at once when it is evicted.
func (b *PodBuilder) graceless() *PodBuilder {
	none := int64(0)
	b.pod.Spec.TerminationGracePeriodSeconds = &none
	return b
}

func (b *PodBuilder) build() *corev1.Pod { return b.pod.DeepCopy() }
