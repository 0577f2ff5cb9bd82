package cluster

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// scrollFrames scrolls through the list for some seconds, and returns the times between frames in ms.
const scrollFrames = `(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  document.getElementById('list').scrollIntoView();
  const begin = await frame(), times = [];
  const [from, length] = [scrollY, document.documentElement.scrollHeight - innerHeight - scrollY];
  for (let last = begin; last - begin < 5000;) {
    scrollTo(0, from + length * ((last - begin) / 5000));
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times.sort((a, b) => a - b);
})()`

// TestWebScale measures a start and the page with a large cluster; bench/web.sh runs it. It checks no times.
func TestWebScale(t *testing.T) {
	count := numbersOf(t, "MGPU_WEB_NODES", "web.sh", 1, 5000)[0]
	ctx := context.Background()
	cluster := Throughput{namespace: newNamespace(ctx, t)}
	nodes := plane.createManyNodes(ctx, t, count)
	place(ctx, t, cluster.namespace, cluster.onEachCard(nodes, func(pod *PodBuilder) { pod.share(50, cardMemoryMiB/2) }))
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	began := time.Now()
	extender.start(t)
	extender.waitReady(t)
	t.Logf("start: ready after %v, %s", time.Since(began).Round(10*time.Millisecond), extender.process.memory())
	var page *Page
	for round := range 3 {
		page = extender.openPage(t, "/web/", window(1280, 900, 1, false))
		page.waitLive()
		page.wait("the page to be drawn", `performance.getEntriesByName('mgpu-drawn').length > 0`, `'not drawn'`)
		times := eval[[]float64](page, `[performance.getEntriesByName('first-contentful-paint')[0].startTime,
			performance.getEntriesByName('mgpu-first-nodes')[0].startTime, performance.getEntriesByName('mgpu-synced')[0].startTime,
			performance.getEntriesByName('mgpu-drawn')[0].startTime]`)
		t.Logf("load %d: first paint %.0f ms, first nodes %.0f ms, all nodes received %.0f ms, drawn %.0f ms", round,
			times[0], times[1], times[2], times[3])
	}
	for round := range 3 {
		frames := eval[[]float64](page, scrollFrames)
		t.Logf("scroll %d: %d frames in 5 s, between frames median %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms", round,
			len(frames), frames[len(frames)/2], frames[len(frames)*95/100], frames[len(frames)*99/100], frames[len(frames)-1])
	}
	eval[bool](page, `(scrollTo(0, 0), true)`)
	for round := range 5 {
		before := eval[string](page, `document.querySelector('[data-total=pods] strong').innerText`)
		pod := newPod(cluster.namespace, fmt.Sprint("update-", round)).share(1, 256)
		begin := time.Now()
		place(ctx, t, cluster.namespace, []placedPod{{pod, nodes[0], map[string]string{"c0": "0"}}})
		posted := time.Now()
		eval[bool](page, `new Promise((done) => { const look = () => {
			const now = document.querySelector('[data-total=pods] strong').innerText;
			if (now !== %s) done(true);
			else requestAnimationFrame(look); }; look(); })`, before)
		t.Logf("update %d: shown %.0f ms after its write (the write took %.0f ms)", round,
			float64(time.Since(posted).Microseconds())/1000, float64(posted.Sub(begin).Microseconds())/1000)
	}
	costs := eval[[]float64](page, `performance.getEntriesByName('mgpu-draw').map((one) => one.duration).slice(-6)`)
	t.Logf("draw after an update, in ms: %.1f", costs)
	search := eval[[]float64](page, `(async () => { const times = []; const field = document.getElementById('query');
		for (const query of ['4', '49', '499', '4999', 'placed-0017', 'V100', '']) {
			const begin = performance.now(); field.value = query; field.dispatchEvent(new Event('input', { bubbles: true }));
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			times.push(performance.now() - begin); }
		return times; })()`)
	t.Logf("search, from a key to the frame, in ms: %.0f", search)
	heap := eval[float64](page, `performance.memory.usedJSHeapSize`)
	t.Logf("heap of the page: %.0f MiB", heap/(1<<20))
	t.Logf("mgpu-extender: %s", extender.process.memory())
}
