package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	leaseName      = "mgpu-extender"
	extenderNodes  = 6
	failoverPods   = extenderNodes * cardsOfEachNode
	failoverLimit  = 4 * time.Minute
	worldLabel     = "mgpu.test/world"
	slotLabel      = "mgpu.test/slot"
	leaderTakesIn  = 2 * time.Minute
	createInterval = 20 * time.Millisecond
)

// ReplicaWorld has replicas of the extender with a Lease, nodes and a namespace of their own. Several such worlds
// share a control plane at the same time.
type ReplicaWorld struct {
	*World
	t        *testing.T
	replicas []*Replica
	port     string                                    // name of the port of the Service
	endpoint atomic.Pointer[discoveryv1.EndpointSlice] // as kube-proxy would know it
	verbs    VerbCertificates                          // of the replicas behind the Service
}

// newReplicaWorld returns a world without replicas and without a scheduler.
func newReplicaWorld(t *testing.T, nodes int) *ReplicaWorld {
	t.Helper()
	world := &ReplicaWorld{World: &World{ctx: context.Background()}, t: t, verbs: newVerbCertificates(t)}
	world.namespace = newNamespace(world.ctx, t)
	world.grantReplicas()
	world.createService()
	world.nodes = plane.createNodes(world.ctx, t, world.namespace+"-", nodes)
	for _, node := range world.nodes {
		world.label(node, "")
	}
	world.history = plane.beginHistory(world.ctx, t, world.namespace)
	return world
}

// label makes a node one of this world.
func (w *ReplicaWorld) label(node, slot string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q,%q:%q}}}`, worldLabel, w.name(), slotLabel, slot)
	_, err := plane.admin.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// name is also the name of the scheduler.
func (w *ReplicaWorld) name() string { return w.namespace }

// grantReplicas gives the extender the rights of deploy/chart in the namespace of this world.
func (w *ReplicaWorld) grantReplicas() {
	w.t.Helper()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Rules: []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "create", "get", "list", "watch", "update"),
		rule("discovery.k8s.io", "endpointslices", "create", "get", "update", "patch"),
		rule("", "services", "get")}}
	if _, err := plane.admin.RbacV1().Roles(w.namespace).Create(w.ctx, role, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: leaseName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: leaseName}}}
	_, err := plane.admin.RbacV1().RoleBindings(w.namespace).Create(w.ctx, binding, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// createService creates the Service without a selector that kube-scheduler calls.
func (w *ReplicaWorld) createService() {
	w.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "verbs", Port: 9800}}}}
	if _, err := plane.admin.CoreV1().Services(w.namespace).Create(w.ctx, service, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// startReplica starts a replica with the default settings of the election.
func (w *ReplicaWorld) startReplica(server string, flags ...string) *Replica {
	w.t.Helper()
	replica := w.newReplica(server, flags...)
	replica.run()
	return replica
}

func (w *ReplicaWorld) newReplica(server string, flags ...string) *Replica {
	w.t.Helper()
	name := fmt.Sprint("replica-", len(w.replicas))
	replica := plane.newReplica(w.t, name, server, append([]string{"--leader-elect",
		"--lease-namespace", w.namespace, "--lease-name", leaseName}, flags...)...)
	w.replicas = append(w.replicas, replica)
	return replica
}

// startReplicas starts replicas of which the leader is the endpoint of the Service, with certificates as in the chart.
func (w *ReplicaWorld) startReplicas(count int) {
	w.t.Helper()
	for range count {
		w.startEndpointReplica(plane.serverURL())
	}
}

func (w *ReplicaWorld) startEndpointReplica(server string, flags ...string) *Replica {
	w.t.Helper()
	address := fmt.Sprint("192.0.2.", len(w.replicas)+1)
	replica := w.newReplica(server, slices.Concat([]string{"--endpoints-of", w.namespace + "/" + leaseName,
		"--advertise-address", address}, w.verbs.flags, flags)...)
	replica.advertised = address
	replica.extender.scheme, replica.extender.client = "https", w.verbs.client
	replica.run()
	return replica
}

// startScheduler starts a kube-scheduler for the pods of this world. It reaches the replica that the EndpointSlice
// names, over HTTP/2, and a connection that exists stays with its replica.
func (w *ReplicaWorld) startScheduler(gates string) *Process {
	w.t.Helper()
	w.followEndpoints()
	front := startLink(w.t, w.leaderAddress)
	command := w.schedulerCommand(SchedulerSetup{configuration: "kube-scheduler-tls.yaml",
		extenderURL: "https://" + front.address() + "/mgpu", schedulerName: w.name(), tls: w.verbs.scheduler,
		gates: gates})
	process, err := command.start()
	if err != nil {
		w.t.Fatal(err)
	}
	process.endWithTest(w.t)
	waitListening(w.t, process, command.port)
	return process
}

// schedulerCommand is that of the control plane with a folder for certificates of its own, because schedulers that
// start at the same time would write the same files.
func (w *ReplicaWorld) schedulerCommand(setup SchedulerSetup) SchedulerCommand {
	w.t.Helper()
	command := plane.schedulerCommand(w.t, setup)
	command.arguments[slices.Index(command.arguments, "--cert-dir")+1] = w.t.TempDir()
	return command
}

func waitListening(t testing.TB, process *Process, port int) {
	t.Helper()
	waitFor(t, time.Minute, process.name+" to listen", func() (bool, string) {
		if !process.running() {
			t.Fatalf("%s ended:\n%s", process.name, process.logTail(10))
		}
		connection, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return false, err.Error()
		}
		return connection.Close() == nil, ""
	})
}

// followEndpoints watches the EndpointSlice until the end of the test.
func (w *ReplicaWorld) followEndpoints() {
	follow(w, plane.admin.DiscoveryV1().EndpointSlices(w.namespace).Watch, w.endpoint.Store)
}

// follow watches objects until the end of the test.
func follow[Object any](w *ReplicaWorld, begin func(context.Context, metav1.ListOptions) (watch.Interface, error),
	note func(*Object)) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			events, err := begin(ctx, metav1.ListOptions{})
			if err != nil {
				time.Sleep(pollInterval)
				continue
			}
			for event := range events.ResultChan() {
				if object, is := event.Object.(any).(*Object); is {
					note(object)
				}
			}
		}
	}()
}

// leaderAddress is where a new connection to the Service goes. Connections stay where they are, as those that
// kube-proxy has forwarded.
func (w *ReplicaWorld) leaderAddress() (string, *Gate) {
	slice := w.endpoint.Load()
	if slice == nil || len(slice.Endpoints) == 0 || len(slice.Ports) == 0 {
		return "", nil
	}
	for _, replica := range w.replicas {
		if slice.Endpoints[0].Addresses[0] == replica.advertised {
			return fmt.Sprint("127.0.0.1:", *slice.Ports[0].Port), replica.scheduler
		}
	}
	return "", nil
}

// leader waits until a replica decides that is none of those, and returns it.
func (w *ReplicaWorld) leader(not ...*Replica) *Replica {
	w.t.Helper()
	var leader *Replica
	waitFor(w.t, leaderTakesIn, "a replica to lead", func() (bool, string) {
		for _, replica := range w.replicas {
			if !slices.Contains(not, replica) && replica.leads() {
				leader = replica
				return true, ""
			}
		}
		return false, "none does"
	})
	return leader
}

// other returns another replica.
func (w *ReplicaWorld) other(replica *Replica) *Replica {
	return w.replicas[slices.IndexFunc(w.replicas, func(one *Replica) bool { return one != replica })]
}

func (w *ReplicaWorld) lease() *coordinationv1.Lease {
	w.t.Helper()
	lease, err := plane.admin.CoordinationV1().Leases(w.namespace).Get(w.ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return lease
}

func (w *ReplicaWorld) holder() string {
	if holder := w.lease().Spec.HolderIdentity; holder != nil {
		return *holder
	}
	return ""
}

// pod returns a pod for the scheduler and the nodes of this world.
func (w *ReplicaWorld) pod(name string) *PodBuilder {
	builder := newPod(w.namespace, name).scheduler(w.name())
	builder.pod.Spec.NodeSelector = map[string]string{worldLabel: w.name(), slotLabel: ""}
	// Where there is kube-controller-manager, it taints nodes without kubelet, and those of a world are for its pods.
	builder.pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return builder
}

// burst creates pods that each need more than half of a card, so that no two fit on one. Together they take all cards
// of the world: a card that is given away twice, or to nobody, leaves a pod pending.
func (w *ReplicaWorld) burst(first, beyond int) {
	for i := first; i < beyond; i++ {
		pod := w.pod(fmt.Sprintf("pod-%03d", i)).share(51+i%50, 2000+100*i).build()
		if _, err := plane.admin.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{}); err != nil {
			w.t.Error(err)
		}
		time.Sleep(createInterval)
	}
}

// bound returns the number of bound pods.
func (w *ReplicaWorld) bound() (bound int, pending string) {
	pods, err := list(w.ctx, w.namespace)
	if err != nil {
		return 0, err.Error()
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			bound++
		} else {
			pending = pods[i].Name + ": " + scheduledCondition(&pods[i])
		}
	}
	return bound, pending
}

// isSchedulerError returns whether kube-scheduler could not ask the extender about the pod.
func isSchedulerError(pod *corev1.Pod) bool {
	return strings.HasPrefix(scheduledCondition(pod), corev1.PodReasonSchedulerError)
}

func (w *ReplicaWorld) waitBound(count int) {
	w.t.Helper()
	err := pollEvery(burstPollInterval, failoverLimit, fmt.Sprint(count, " pods to be bound"), func() (bool, string) {
		bound, pending := w.bound()
		return bound >= count, fmt.Sprint(bound, " bound; ", pending)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// policyView is the answer of /inspect/policy.
type policyView struct {
	PodsSeen int
	Prices   struct {
		Classes []struct{ MemoryMiB int64 }
	}
}

func (r *Replica) policy() (view policyView, err error) {
	_, body, err := r.probe("/inspect/policy")
	if err == nil {
		err = json.Unmarshal([]byte(body), &view)
	}
	return view, err
}

// waitSeen waits until the replica has learned from this number of pods.
func (r *Replica) waitSeen(t testing.TB, pods int) {
	t.Helper()
	waitFor(t, leaderTakesIn, r.name+" to learn", func() (bool, string) {
		view, err := r.policy()
		return err == nil && view.PodsSeen >= pods, fmt.Sprint(view.PodsSeen, " pods seen ", err)
	})
}

// learnedMemory returns whether the replica has prices for a class of pods with this memory.
func (r *Replica) learnedMemory(memoryMiB int64) (bool, string) {
	view, err := r.policy()
	for _, class := range view.Prices.Classes {
		if class.MemoryMiB == memoryMiB {
			return true, ""
		}
	}
	return false, fmt.Sprint(len(view.Prices.Classes), " classes ", err)
}
