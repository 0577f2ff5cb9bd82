package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What pods hold of cards, worked out from specs and annotations alone: a second opinion, which shares
// nothing with the extender.

// Share is an amount of one card.
type Share struct{ core, memory int64 }

func (s Share) plus(other Share) Share { return Share{s.core + other.core, s.memory + other.memory} }

func (s Share) most(other Share) Share {
	return Share{max(s.core, other.core), max(s.memory, other.memory)}
}

var wholeCard = Share{100, cardMemoryMiB} // all cards of these tests are equal

// Ask is what one container wants: the same share of each of some cards.
type Ask struct {
	container string
	cards     int
	perCard   Share
	initial   bool // a plain init container
}

func (a Ask) String() string {
	return fmt.Sprintf("%s: %d x %d%%/%d MiB", a.container, a.cards, a.perCard.core, a.perCard.memory)
}

// asksOf lists the containers that want cards, init containers first, each in spec order.
func asksOf(pod *corev1.Pod) []Ask {
	var asks []Ask
	for _, one := range pod.Spec.InitContainers {
		sidecar := one.RestartPolicy != nil && *one.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if ask, some := askOf(&one, 0); some {
			ask.initial = !sidecar
			asks = append(asks, ask)
		}
	}
	counts := strings.Split(pod.Annotations[multipleGPUKey], ",")
	for i, one := range pod.Spec.Containers {
		count := 0
		if len(counts) == len(pod.Spec.Containers) {
			count, _ = strconv.Atoi(counts[i])
		}
		if ask, some := askOf(&one, count); some {
			asks = append(asks, ask)
		}
	}
	return asks
}

// askOf reads a container; count is what container-multiple-gpu says of it, 0 when it says nothing.
func askOf(container *corev1.Container, count int) (Ask, bool) {
	coreAmount := container.Resources.Limits[coreResource]
	memoryAmount := container.Resources.Limits[memoryResource]
	core, memory := coreAmount.Value(), memoryAmount.Value()
	if core == 0 {
		return Ask{}, false
	}
	cards := int64(max(1, count))
	if count == 0 && core > 100 {
		cards = core / 100
	}
	perCard := Share{core / cards, memory / cards}
	if memory == 0 {
		perCard = wholeCard
	}
	return Ask{container: container.Name, cards: int(cards), perCard: perCard}, true
}

// cardsOf reads a container's annotation. Errors: absent, not ascending, not of the node, another number of
// cards.
func cardsOf(pod *corev1.Pod, ask Ask, ofNode int) ([]int, error) {
	text, written := pod.Annotations[indexKeyPrefix+ask.container]
	if !written {
		return nil, fmt.Errorf("container %s has no cards written", ask.container)
	}
	var cards []int
	for _, part := range strings.Split(text, ",") {
		card, err := strconv.Atoi(part)
		if err != nil || card < 0 || card >= ofNode || (len(cards) > 0 && card <= cards[len(cards)-1]) {
			return nil, fmt.Errorf("container %s has cards %q", ask.container, text)
		}
		cards = append(cards, card)
	}
	if len(cards) != ask.cards {
		return nil, fmt.Errorf("container %s wants %d cards and has %q", ask.container, ask.cards, text)
	}
	return cards, nil
}

// Holding is what a pod, or all pods together, hold of each card of a node.
type Holding [cardsOfEachNode]Share

func (h *Holding) add(other Holding, sign int64) {
	for card := range h {
		h[card] = h[card].plus(Share{sign * other[card].core, sign * other[card].memory})
	}
}

// overfull names a card that is past its limits.
func (h *Holding) overfull() (int, bool) {
	card := slices.IndexFunc(h[:], func(held Share) bool {
		return held.core > wholeCard.core || held.memory > wholeCard.memory
	})
	return card, card >= 0
}

// holdOf is, card by card, the most that the pod uses at any time of its life: each init container
// with the sidecars before it, and at the end sidecars and app containers together.
func holdOf(asks []Ask, cards [][]int) Holding {
	var most, lasting Holding
	for i, ask := range asks {
		for _, card := range cards[i] {
			if ask.initial {
				most[card] = most[card].most(lasting[card].plus(ask.perCard))
			} else {
				lasting[card] = lasting[card].plus(ask.perCard)
			}
		}
	}
	for card := range most {
		most[card] = most[card].most(lasting[card])
	}
	return most
}

// holdOfBound reads a bound pod's cards and says what it holds; nothing once it has finished.
func holdOfBound(pod *corev1.Pod) (Holding, error) {
	asks := asksOf(pod)
	cards := make([][]int, len(asks))
	for i, ask := range asks {
		var err error
		if cards[i], err = cardsOf(pod, ask, cardsOfEachNode); err != nil {
			return Holding{}, err
		}
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Holding{}, nil
	}
	return holdOf(asks, cards), nil
}

// fits tries every choice of cards for every container.
func fits(used Holding, asks []Ask) bool { return fitsFrom(used, asks, make([][]int, 0, len(asks))) }

func fitsFrom(used Holding, asks []Ask, chosen [][]int) bool {
	if len(chosen) == len(asks) {
		return true
	}
	return eachChoice(asks[len(chosen)].cards, 0, nil, func(cards []int) bool {
		next := append(slices.Clone(chosen), cards)
		total := holdOf(asks[:len(next)], next)
		total.add(used, 1)
		if _, over := total.overfull(); over {
			return false
		}
		return fitsFrom(used, asks, next)
	})
}

// eachChoice calls try with each set of `count` cards from `first` on until one call says true.
func eachChoice(count, first int, chosen []int, try func([]int) bool) bool {
	if count == 0 {
		return try(chosen)
	}
	for card := first; card+count <= cardsOfEachNode; card++ {
		if eachChoice(count-1, card+1, append(slices.Clone(chosen), card), try) {
			return true
		}
	}
	return false
}
