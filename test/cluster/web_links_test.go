package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The detail of a node shows the links and NUMA nodes of its cards, as text in cells of a table that has headers.
func TestWebShowsLinksAndNUMANodesOfCards(t *testing.T) {
	world := newWorld(t, 1)
	plane.createNode(world.ctx, t, "gpu-linked", 4)
	node, err := plane.admin.CoreV1().Nodes().Get(world.ctx, "gpu-linked", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var cards map[string]any
	if err := json.Unmarshal([]byte(node.Annotations[cardsKey]), &cards); err != nil {
		t.Fatal(err)
	}
	for i, card := range cards["cards"].([]any)[:3] {
		card.(map[string]any)["numa"] = i / 2
	}
	cards["links"] = "2n---p"
	text, _ := json.Marshal(cards)
	world.annotate(t, "gpu-linked", cardsKey, string(text))

	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	page.waitRow("gpu-linked", true)
	page.click(`.row[data-key="gpu-linked"]`)
	page.waitText("#detail-title", "Node gpu-linked")
	page.waitText("#detail-body", "NV2 to card 1; NODE to card 2")
	shown := eval[[][]string](page, `[...document.querySelectorAll('.cards-table tbody tr')].map((row) =>
		[...row.cells].slice(-2).map((cell) => cell.innerText))`)
	want := [][]string{{"0", "NV2 to card 1; NODE to card 2"}, {"0", "NV2 to card 0"}, {"1", "PIX to card 3; NODE to card 0"},
		{"not known", "PIX to card 2"}}
	if !slices.EqualFunc(shown, want, slices.Equal[[]string]) {
		t.Errorf("the links are shown as %q, want %q", shown, want)
	}
	headers := strings.Join(page.namesOf("columnheader"), ", ")
	if !strings.HasSuffix(headers, "NUMA node, links") {
		t.Errorf("the headers are read as %q", headers)
	}
	page.click("#detail-close")
	page.click(`.row[data-key="gpu-00"]`)
	page.waitText("#detail-title", "Node gpu-00")
	if headers := page.namesOf("columnheader"); slices.Contains(headers, "links") {
		t.Errorf("a node without links has the headers %q", headers)
	}
}

// namesOf returns what a screen reader says of the elements with this role.
func (p *Page) namesOf(role string) []string {
	var names []string
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		tree, err := accessibility.GetFullAXTree().Do(ctx)
		for _, node := range tree {
			if !node.Ignored && node.Role != nil && node.Name != nil && axText(node.Role) == role {
				names = append(names, axText(node.Name))
			}
		}
		return err
	}))
	return names
}
