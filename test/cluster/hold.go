package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// This file computes what pods hold from their specs and annotations, without code of the extender.

// Share is an amount of one card.
type Share struct{ core, memory int64 }

func (s Share) plus(other Share) Share { return Share{s.core + other.core, s.memory + other.memory} }

func (s Share) most(other Share) Share {
	return Share{max(s.core, other.core), max(s.memory, other.memory)}
}

var wholeCard = Share{100, cardMemoryMiB} // all cards of these tests are equal

// ContainerRequest is the request of one container: the same share of each of its cards.
type ContainerRequest struct {
	container string
	cards     int
	perCard   Share
	initial   bool // an init container that is no sidecar
}

func (r ContainerRequest) String() string {
	return fmt.Sprintf("%s: %d x %d%%/%d MiB", r.container, r.cards, r.perCard.core, r.perCard.memory)
}

// requestsOf lists the containers that request cards, init containers first, in the order of the spec.
func requestsOf(pod *corev1.Pod) []ContainerRequest {
	var requests []ContainerRequest
	for _, one := range pod.Spec.InitContainers {
		sidecar := one.RestartPolicy != nil && *one.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if request, some := requestOf(&one, 0); some {
			request.initial = !sidecar
			requests = append(requests, request)
		}
	}
	counts := strings.Split(pod.Annotations[multipleGPUKey], ",")
	for i, one := range pod.Spec.Containers {
		count := 0
		if len(counts) == len(pod.Spec.Containers) {
			count, _ = strconv.Atoi(counts[i])
		}
		if request, some := requestOf(&one, count); some {
			requests = append(requests, request)
		}
	}
	return requests
}

// requestOf reads a container. `count` is its number in container-multiple-gpu, or 0.
func requestOf(container *corev1.Container, count int) (ContainerRequest, bool) {
	coreAmount := container.Resources.Limits[coreResource]
	memoryAmount := container.Resources.Limits[memoryResource]
	core, memory := coreAmount.Value(), memoryAmount.Value()
	if core == 0 {
		return ContainerRequest{}, false
	}
	cards := int64(max(1, count))
	if count == 0 && core > 100 {
		cards = core / 100
	}
	perCard := Share{core / cards, memory / cards}
	if memory == 0 {
		perCard = wholeCard
	}
	return ContainerRequest{container: container.Name, cards: int(cards), perCard: perCard}, true
}

// cardsOf reads the annotation of a container. It is an error if there is none, or if its cards are not
// ascending, not on the node, or of another number than requested.
func cardsOf(pod *corev1.Pod, request ContainerRequest, ofNode int) ([]int, error) {
	text, written := pod.Annotations[indexKeyPrefix+request.container]
	if !written {
		return nil, fmt.Errorf("container %s has no annotation with cards", request.container)
	}
	var cards []int
	for _, part := range strings.Split(text, ",") {
		card, err := strconv.Atoi(part)
		if err != nil || card < 0 || card >= ofNode || (len(cards) > 0 && card <= cards[len(cards)-1]) {
			return nil, fmt.Errorf("container %s has cards %q", request.container, text)
		}
		cards = append(cards, card)
	}
	if len(cards) != request.cards {
		return nil, fmt.Errorf("container %s wants %d cards and has %q", request.container, request.cards, text)
	}
	return cards, nil
}

// Holding is the amount of each card of a node that one pod or several pods hold.
type Holding [cardsOfEachNode]Share

func (h *Holding) add(other Holding, sign int64) {
	for card := range h {
		h[card] = h[card].plus(Share{sign * other[card].core, sign * other[card].memory})
	}
}

// overfull returns a card that is overcommitted.
func (h *Holding) overfull() (int, bool) {
	card := slices.IndexFunc(h[:], func(held Share) bool {
		return held.core > wholeCard.core || held.memory > wholeCard.memory
	})
	return card, card >= 0
}

// holdOf returns, for each card, the maximum that a pod uses at any time: each init container runs with
// the sidecars before it, and then all sidecars and app containers run together.
func holdOf(requests []ContainerRequest, cards [][]int) Holding {
	var most, lasting Holding
	for i, request := range requests {
		for _, card := range cards[i] {
			if request.initial {
				most[card] = most[card].most(lasting[card].plus(request.perCard))
			} else {
				lasting[card] = lasting[card].plus(request.perCard)
			}
		}
	}
	for card := range most {
		most[card] = most[card].most(lasting[card])
	}
	return most
}

// holdOfBound returns what a bound pod holds. A terminated pod holds nothing.
func holdOfBound(pod *corev1.Pod) (Holding, error) {
	requests := requestsOf(pod)
	cards := make([][]int, len(requests))
	for i, request := range requests {
		var err error
		if cards[i], err = cardsOf(pod, request, cardsOfEachNode); err != nil {
			return Holding{}, err
		}
	}
	if isTerminated(pod) {
		return Holding{}, nil
	}
	return holdOf(requests, cards), nil
}

func isTerminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// fits tries all choices of cards for all containers.
func fits(used Holding, requests []ContainerRequest) bool {
	return fitsFrom(used, requests, make([][]int, 0, len(requests)))
}

func fitsFrom(used Holding, requests []ContainerRequest, chosen [][]int) bool {
	if len(chosen) == len(requests) {
		return true
	}
	return eachChoice(requests[len(chosen)].cards, 0, nil, func(cards []int) bool {
		next := append(slices.Clone(chosen), cards)
		total := holdOf(requests[:len(next)], next)
		total.add(used, 1)
		if _, over := total.overfull(); over {
			return false
		}
		return fitsFrom(used, requests, next)
	})
}

// eachChoice calls try with each set of `count` cards, starting at card `first`, until a call returns true.
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
