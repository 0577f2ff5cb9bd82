package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
)

// ClusterTotals are the totals of /inspect/cluster.
type ClusterTotals struct {
	Nodes, Cards                         int
	Core, MemoryMiB                      struct{ Capacity, Used, Free, Expected int64 }
	PodsBound, PodsAssumed, PodsDrifting int
	CardsOverfull, ExpectedPlacements    int
	PodsNominated                        int
}

// InspectedPod is a pod of /inspect/node.
type InspectedPod struct {
	Namespace, Name, Node, Phase string
	UID                          types.UID
	Holds                        []struct {
		Card            int
		Core, MemoryMiB int64
	}
}

func (e *Extender) inspect(path string, into any) error {
	status, body, err := e.get(path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, status, body)
	}
	return json.Unmarshal([]byte(body), into)
}

func (e *Extender) totals() (ClusterTotals, error) {
	var view struct{ Totals ClusterTotals }
	return view.Totals, e.inspect("/inspect/cluster?limit=1", &view)
}

// difference returns the first difference between the ledger and what the pods hold, or "".
func (s *Soak) difference() string {
	held := s.pods.held()
	for _, node := range s.nodes {
		var view struct{ Pods []InspectedPod }
		if err := s.extender.inspect("/inspect/node?name="+url.QueryEscape(node), &view); err != nil {
			return err.Error()
		}
		for _, pod := range view.Pods {
			want, some := held[pod.UID]
			if why := pod.differs(want, some, node); why != "" {
				return fmt.Sprintf("%s/%s on %s: %s", pod.Namespace, pod.Name, node, why)
			}
			delete(held, pod.UID)
		}
	}
	for _, pod := range held {
		return fmt.Sprintf("%s holds cards of %s, but the ledger does not have it", pod.key, pod.node)
	}
	return ""
}

func (p InspectedPod) differs(want HeldPod, some bool, node string) string {
	holding := Holding{}
	for _, one := range p.Holds {
		if one.Card < 0 || one.Card >= cardsOfEachNode {
			return fmt.Sprintf("the ledger has card %d", one.Card)
		}
		holding[one.Card] = Share{one.Core, one.MemoryMiB}
	}
	switch {
	case !some:
		return "the ledger has it, but it holds no cards"
	case p.Phase != "bound":
		return "its phase is " + p.Phase
	case want.node != node:
		return "it is bound to " + want.node
	case holding != want.holding:
		return fmt.Sprintf("the ledger has %v, the pod holds %v", holding, want.holding)
	}
	return ""
}

// leftOver returns what the extender has not released although there are no pods, or "".
func (s *Soak) leftOver() string {
	totals, err := s.extender.totals()
	if err != nil {
		return err.Error()
	}
	want := ClusterTotals{Nodes: len(s.nodes), Cards: len(s.nodes) * cardsOfEachNode}
	want.Core.Capacity = int64(want.Cards) * wholeCard.core
	want.MemoryMiB.Capacity = int64(want.Cards) * wholeCard.memory
	want.Core.Free, want.MemoryMiB.Free = want.Core.Capacity, want.MemoryMiB.Capacity
	if totals != want {
		return fmt.Sprintf("/inspect/cluster has %+v", totals)
	}
	status, text, err := s.extender.get("/metrics")
	if err != nil || status != http.StatusOK {
		return fmt.Sprint("/metrics: ", status, " ", err)
	}
	return leftInMetrics(readMetrics(text))
}

// leftInMetrics returns a gauge that must be 0 without pods and is not, or is missing.
func leftInMetrics(metrics Metrics) string {
	for _, gauge := range []string{`mgpu_extender_claims{phase="assumed"}`, `mgpu_extender_claims{phase="bound"}`,
		"mgpu_extender_expected_placements", "mgpu_extender_nominated_pods", "mgpu_extender_drifting_pods",
		"mgpu_extender_overfull_cards", "mgpu_extender_binds_in_flight"} {
		if value, exists := metrics[gauge]; !exists || value != 0 {
			return fmt.Sprintf("%s is %v (present: %v)", gauge, value, exists)
		}
	}
	return ""
}
