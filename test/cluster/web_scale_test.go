package cluster

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scaleServer starts the in-memory API server with a cluster, and returns its URL.
func scaleServer(t testing.TB, nodes, pods string) string {
	t.Helper()
	command := exec.Command(os.Getenv("MGPU_SCALE_SERVER_BINARY"), "--nodes", nodes, "--pods", pods)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	forks <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(line)
}

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

// TestWebScale measures the page with a large cluster; bench/web.sh runs it. It checks no times.
func TestWebScale(t *testing.T) {
	nodes, pods := os.Getenv("MGPU_WEB_NODES"), os.Getenv("MGPU_WEB_PODS")
	if nodes == "" || pods == "" {
		t.Skip("MGPU_WEB_NODES and MGPU_WEB_PODS are not set; bench/web.sh sets them")
	}
	url := scaleServer(t, nodes, pods)
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
 clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	extender := plane.extenderOn(t, "http", http.DefaultClient)
	extender.follow(config)
	extender.start(t)
	extender.waitReady(t)
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
		name := fmt.Sprint("update-", round)
		begin := time.Now()
		postPod(t, url, name)
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
		for (const query of ['4', '49', '499', '4999', 'pod-17', 'A100', '']) {
			const begin = performance.now(); field.value = query; field.dispatchEvent(new Event('input', { bubbles: true }));
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			times.push(performance.now() - begin); }
		return times; })()`)
	t.Logf("search, from a key to the frame, in ms: %.0f", search)
	heap := eval[float64](page, `performance.memory.usedJSHeapSize`)
	t.Logf("heap of the page: %.0f MiB", heap/(1<<20))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", extender.process.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			t.Logf("mgpu-extender %s", strings.TrimSpace(line))
		}
	}
}

// postPod creates a bound pod with a share of the first card.
func postPod(t testing.TB, url, name string) {
	t.Helper()
	pod := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "annotations": {%q: "true", %q: "0"}},
		"spec": {"nodeName": "gpu-node-0", "containers": [{"name": "app", "image": "none", "resources": {"limits": {%q: "1", %q: "256"}}}]}}`,
		name, assumedKey, indexKeyPrefix+"app", coreResource, memoryResource)
	answer, err := http.Post(url+"/api/v1/namespaces/default/pods", "application/json", strings.NewReader(pod))
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
}
