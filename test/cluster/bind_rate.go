package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// A kube-scheduler begins a bind each bindCycle, which is faster than it schedules here, and does not wait for
// it. The limit of its binds in flight keeps the last one from its timeout.
const (
	bindCycle     = 2 * time.Millisecond
	bindsInFlight = 64
	verbTimeout   = 5 * time.Second // kube-scheduler's default
)

// target is a pod with the node and the card that it is bound to.
type target struct {
	pod  *corev1.Pod
	node string
	card int
}

// targetsOf distributes the pods over all cards.
func targetsOf(pods []corev1.Pod, nodes []string) []target {
	targets := make([]target, len(pods))
	for i := range pods {
		targets[i] = target{pod: &pods[i], node: nodes[i%len(nodes)], card: i / len(nodes) % cardsOfEachNode}
	}
	return targets
}

// bindPlain writes the binding as the extender does.
func bindPlain(ctx context.Context, one target) error {
	return plane.admin.CoreV1().Pods(one.pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: one.pod.Name, UID: one.pod.UID, ResourceVersion: one.pod.ResourceVersion,
			Annotations: map[string]string{assumedKey: "true", indexKeyPrefix + "c0": fmt.Sprint(one.card)}},
		Target: corev1.ObjectReference{Kind: "Node", Name: one.node}}, metav1.CreateOptions{})
}

// bindByExtender calls the verb as kube-scheduler does.
func bindByExtender(extender *Extender, client *http.Client, one target) error {
	body, err := json.Marshal(map[string]string{"PodName": one.pod.Name, "PodNamespace": one.pod.Namespace,
		"PodUID": string(one.pod.UID), "Node": one.node})
	if err != nil {
		return err
	}
	status, answer, err := read(client.Post(extender.address("/mgpu/bind"), "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	if status != http.StatusOK || answer != `{"Error":""}` {
		return fmt.Errorf("bind: %d %s", status, answer)
	}
	return nil
}

// bindAtPace binds as this number of kube-schedulers do, and returns the times of the answers. `bind` gets the number
// of the kube-scheduler.
func bindAtPace(t *testing.T, schedulers int, targets []target, bind func(int, target) error) []time.Time {
	t.Helper()
	var group sync.WaitGroup
	var mutex sync.Mutex
	var times []time.Time
	for first := range schedulers {
		group.Go(func() {
			due := time.NewTicker(bindCycle)
			defer due.Stop()
			slots := make(chan struct{}, bindsInFlight)
			for i := first; i < len(targets); i += schedulers {
				<-due.C
				slots <- struct{}{}
				group.Go(func() {
					defer func() { <-slots }()
					if err := bind(first, targets[i]); err != nil {
						t.Error(err)
					}
					mutex.Lock()
					defer mutex.Unlock()
					times = append(times, time.Now())
				})
			}
		})
	}
	group.Wait()
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// measureBinds returns the pods that a plain client, or the extender, binds in a second. The extender has
// filtered the pods before, as it has in a scheduling cycle.
func (b *Throughput) measureBinds(ctx context.Context, t *testing.T, one throughputCase, nodes []string, stock bool,
	used usedTimes) float64 {
	t.Helper()
	processes := map[string]*Process{"etcd": plane.etcd, "kube-apiserver": plane.apiServer}
	bind := func(_ int, one target) error { return bindPlain(ctx, one) }
	var extender *Extender
	if !stock || b.against != "" {
		var setup SchedulerSetup
		extender, setup = plane.extenderWithCertificates(t)
		extender.binary = b.binaryOf(extender, stock)
		extender.start(t)
		defer extender.end(t)
		extender.waitReady(t)
		extender.waitNodes(t, len(nodes))
		processes["mgpu-extender"] = extender.process
		clients := schedulerClients(t, setup, one.binders)
		bind = func(scheduler int, one target) error { return bindByExtender(extender, clients[scheduler], one) }
	}
	createAll(ctx, t, one.pods(extender == nil))
	pods, err := list(ctx, b.namespace)
	if err != nil {
		t.Fatal(err)
	}
	targets := targetsOf(pods, nodes)
	if extender != nil {
		for _, one := range targets {
			filter(t, extender, one.pod, []string{one.node})
		}
	}
	before := processorTimesOf(t, processes)
	times := bindAtPace(t, one.binders, targets, bind)
	used.add(before, processorTimesOf(t, processes), len(times))
	b.removeAll(ctx, t)
	return rateOf(times)
}

// schedulerClients returns a client of the verbs for each of some kube-schedulers, which makes it as kube-scheduler
// does (makeTransport in pkg/scheduler/extender.go).
func schedulerClients(t *testing.T, setup SchedulerSetup, count int) []*http.Client {
	t.Helper()
	configuration, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: setup.tls["caFile"], CertFile: setup.tls["certFile"], KeyFile: setup.tls["keyFile"]}})
	if err != nil {
		t.Fatal(err)
	}
	clients := make([]*http.Client, count)
	for i := range clients {
		transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: configuration.Clone()})
		clients[i] = &http.Client{Transport: transport, Timeout: verbTimeout}
		t.Cleanup(transport.CloseIdleConnections)
	}
	return clients
}
