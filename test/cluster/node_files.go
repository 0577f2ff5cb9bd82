package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// nodeImage is a busybox image for containers and sandboxes. The node cannot pull images.
const nodeImage = "mgpu.test/busybox:1"

const podRange = "10.213.0.0/20"

// usersRuntime is the name of a runtime whose runc has user namespaces.
const usersRuntime = "user-namespaces"

const overlayMagic = 0x794c7630 // overlayfs cannot be mounted on overlayfs

const containerdConfig = `version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{image}"
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ["{folder}/cdi-static", "{folder}/cdi"]
# Without this, runc fails if it must not lower the OOM score.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{runtime}"]
conf_dir = "{folder}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{runtime}/containerd-shim-runc-v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{users}]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{runtime}/containerd-shim-runc-v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{users}.options]
BinaryName = "{runtime}/runc"
SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = "{folder}/opt"
`

const networkConfig = `{"cniVersion": "1.0.0", "name": "{network}", "plugins": [{"type": "bridge", "bridge": "{bridge}",
"isDefaultGateway": {gateway},
"ipam": {"type": "host-local", "dataDir": "{addresses}", "ranges": [[{"subnet": "` + podRange + `"}]]}}]}
`

// Periods are short, so that tests are short. Eviction thresholds are low, because the machine may be busy.
// kubeletConfigOf adds the fields that not all versions have.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
port: {port}
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: {folder}/manifests
fileCheckFrequency: 2s
volumePluginDir: {folder}/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failSwapOn: false
enforceNodeAllocatable: [pods]
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: 10Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
imageGCHighThresholdPercent: 100
oomScoreAdj: 0
resolvConf: ""
maxPods: 300
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 200
kubeAPIBurst: 400
nodeStatusUpdateFrequency: 2s
syncFrequency: 2s
`

// prepare writes the files that containerd and kubelet read.
func (n *Node) prepare() error {
	for _, folder := range []string{"cni", "cdi", "cdi-static", "logs", "kubelet", "manifests"} {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			return err
		}
	}
	for _, hierarchy := range cgroupHierarchies() {
		if err := os.MkdirAll(filepath.Join(hierarchy, n.cgroup), 0o755); err != nil {
			return err
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("{folder}", n.folder, "{runtime}", n.runtime, "{image}", nodeImage, "{users}", usersRuntime,
		"{snapshotter}", snapshotterFor(n.folder), "{network}", nodeNetwork, "{bridge}", nodeBridge,
		"{cgroup}", n.cgroup, "{addresses}", n.addresses, "{port}", fmt.Sprint(port), "{address}", n.plane.full.nodeAddress(),
		"{gateway}", fmt.Sprint(n.plane.full != nil))
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "cni/net.conflist": networkConfig, "kubelet.yaml": kubeletConfigOf(n.minor)} {
		if err := os.WriteFile(n.path(name), []byte(fill.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func snapshotterFor(folder string) string {
	var under syscall.Statfs_t
	if err := syscall.Statfs(folder, &under); err != nil || under.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}

// importImage makes an image with Debian's busybox and imports it into containerd.
func (n *Node) importImage() error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w; install the Debian package busybox-static", err)
	}
	layer, err := busyboxLayer(busybox)
	if err != nil {
		return err
	}
	return n.importLayer(nodeImage, layer, "/bin/sleep", "infinity")
}

// importLayer imports an image of one layer.
func (n *Node) importLayer(image string, layer []byte, entrypoint ...string) error {
	archive, err := dockerArchive(image, layer, entrypoint)
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.path("image.tar"), archive, 0o644); err != nil {
		return err
	}
	defer os.Remove(n.path("image.tar"))
	return n.importArchive(n.path("image.tar"))
}

// importArchive imports the images of a file.
func (n *Node) importArchive(path string) error {
	_, err := n.ctr("images", "import", "--local", "--snapshotter", snapshotterFor(n.folder), path)
	return err
}

// busyboxLayer returns an image layer with busybox under all of its names.
func busyboxLayer(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	names, err := runTool(busybox, "--list")
	if err != nil {
		return nil, err
	}
	files := []archiveFile{{name: "bin/busybox", body: program, mode: 0o755}}
	for _, name := range strings.Fields(names) {
		if name != "busybox" {
			files = append(files, archiveFile{name: "bin/" + name, link: "busybox"})
		}
	}
	return archiveOf(files)
}

// dockerArchive returns an image of one layer in the format of `docker save`.
func dockerArchive(image string, layer []byte, entrypoint []string) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Env": []string{"PATH=/bin"}, "Entrypoint": entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{image}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return archiveOf([]archiveFile{{name: "layer.tar", body: layer, mode: 0o644},
		{name: "config.json", body: config, mode: 0o644}, {name: "manifest.json", body: manifest, mode: 0o644}})
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// archiveFile is a regular file, or a symbolic link if `link` is set.
type archiveFile struct {
	name, link string
	body       []byte
	mode       int64
}

func archiveOf(files []archiveFile) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.body)), Typeflag: tar.TypeReg}
		if file.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, file.link
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.body); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return buffer.Bytes(), err
}
