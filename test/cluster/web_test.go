package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// inspectedAmount, inspectedCard, inspectedNode and inspectedCluster are what /inspect answers.
type inspectedAmount struct{ Capacity, Used, Free int64 }

type inspectedCard struct {
	Index     int
	UUID      string
	Model     string
	Healthy   bool
	Core      inspectedAmount
	MemoryMiB inspectedAmount
}

type inspectedNode struct {
	Name  string
	Cards []inspectedCard
	Pods  json.RawMessage
}

type inspectedCluster struct {
	Totals struct {
		Nodes, Cards, PodsBound int
		Core, MemoryMiB         inspectedAmount
	}
	Nodes []inspectedNode
}

func inspect[T any](t testing.TB, extender *Extender, path string) T {
	t.Helper()
	status, body, err := extender.get("/inspect/" + path)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	var view T
	if err := json.Unmarshal([]byte(body), &view); err != nil {
		t.Fatal(err)
	}
	return view
}

// shown is what a page says about the cluster.
type shown struct {
	Cards, Pods string
	Rows        []string
}

func (p *Page) shown() shown {
	return shown{Cards: p.text(`[data-total=cards]`), Pods: p.text(`[data-total=pods] strong`), Rows: p.keys()}
}

// waitEqual waits until the page shows what /inspect does.
func (w *World) waitEqual(t testing.TB, page *Page) {
	t.Helper()
	waitFor(t, browserWait, "the page to equal /inspect", func() (bool, string) {
		view, seen := inspect[inspectedCluster](t, w.extender, "cluster"), page.shown()
		names := []string{}
		for _, node := range view.Nodes {
			names = append(names, node.Name)
		}
		equal := seen.Pods == fmt.Sprint(view.Totals.PodsBound) && slices.Equal(seen.Rows, names) &&
			seen.Cards == fmt.Sprintf("%d cards", view.Totals.Cards)
		return equal, fmt.Sprintf("%+v, want %+v", seen, view.Totals)
	})
}

// cardsOfDialog returns the cells of the table in the dialog about a node.
func (p *Page) cardsOfDialog() [][]string {
	return eval[[][]string](p, `[...document.querySelectorAll('#detail-body .cards-table tbody tr')].map((row) =>
		[...row.cells].map((cell) => cell.innerText.trim()))`)
}

func TestWebShowsWhatInspectShows(t *testing.T) {
	world := newWorld(t, 2)
	create(world.ctx, t, world.pod("first").share(30, 8192))
	waitBound(world.ctx, t, world.namespace, "first")
	page := world.extender.openPage(t, "/")
	page.waitLive()
	world.waitEqual(t, page)

	// Changes arrive without a reload.
	create(world.ctx, t, world.pod("second").wholeCards(2))
	bound := waitBound(world.ctx, t, world.namespace, "second")
	page.waitText(`[data-total=pods] strong`, "2")
	world.waitEqual(t, page)

	page.click(fmt.Sprintf(`.row[data-key=%q]`, bound.Spec.NodeName))
	page.waitText("#detail-title", "Node "+bound.Spec.NodeName)
	node := inspect[inspectedNode](t, world.extender, "node?name="+bound.Spec.NodeName)
	cells := page.cardsOfDialog()
	if len(cells) != len(node.Cards) {
		t.Fatalf("the dialog has %d cards, want %d", len(cells), len(node.Cards))
	}
	for i, card := range node.Cards {
		want := []string{fmt.Sprint(card.Index), card.Model + "\n" + card.UUID,
			fmt.Sprintf("%d of %d %%", card.Core.Used, card.Core.Capacity)}
		if !slices.Equal(cells[i][:3], want) {
			t.Errorf("card %d is shown as %q, want %q", i, cells[i], want)
		}
	}
	page.click("#detail-close")

	deleteNow(world.ctx, t, world.namespace, "first")
	page.waitText(`[data-total=pods] strong`, "1")
	plane.createNode(world.ctx, t, "gpu-added", 4)
	page.waitRow("gpu-added", true)
	world.waitEqual(t, page)
	if loads := eval[int](page, `performance.getEntriesByType('navigation').length`); loads != 1 {
		t.Errorf("the page was loaded %d times", loads)
	}
}

func TestWebSaysWhenTheExtenderGoesAway(t *testing.T) {
	world := newWorld(t, 1)
	page := world.extender.openPage(t, "/web/")
	page.waitLive()
	world.extender.process.Kill()
	page.wait("the page to say that the connection is lost", `document.documentElement.dataset.state === 'lost'`,
		`document.documentElement.dataset.state`)
	page.waitText("#notice", "The connection to the extender is lost.")
	page.waitText("#connection", "Connection lost")
	page.waitRow(world.nodes[0], true) // what was known is still shown

	create(world.ctx, t, newPod(world.namespace, "meanwhile").share(10, 1024))
	world.extender.start(t)
	world.extender.waitReady(t)
	page.waitLive()
	waitBound(world.ctx, t, world.namespace, "meanwhile")
	page.waitText(`[data-total=pods] strong`, "1")
	world.waitEqual(t, page)
	page.wait("the notice to go", `document.querySelector('#notice').hidden`, `document.querySelector('#notice').innerText`)
}

func TestWebShowsAnEmptyCluster(t *testing.T) {
	extender := plane.startExtender(t)
	page := extender.openPage(t, "/web/", chromedp.EmulateViewport(1000, 700))
	page.waitLive()
	page.waitText("#count", "No nodes")
	page.waitText("#overview-caption", "The cluster has no cards.")
	page.waitText(`[data-total=core] strong`, "0 %")
	page.click("#tab-waiting")
	page.waitText("#count", "No pending pods")
}
