//go:build ignore

// Writes checkpoint.json and checkpoint-empty.json with kubelet's own code: in a module that
// requires k8s.io/kubernetes v1.36.3, go run generate.go FOLDER. v1.37.2 writes the same files.
package main

import (
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
)

func response(env map[string]string, cdi ...string) []byte {
	r := &api.ContainerAllocateResponse{Envs: env}
	for _, name := range cdi {
		r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: name})
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

func write(name string, content checkpoint.DeviceManagerCheckpoint) {
	b, err := content.MarshalCheckpoint()
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(os.Args[1], name), b, 0o644); err != nil {
		panic(err)
	}
}

func main() {
	const core = "vke.volcengine.com/mgpu-core"
	ours := func(id, hash, percent string) []byte {
		return response(map[string]string{"MGPU_ALLOCATION": id, "MGPU_DEVICES_HASH": hash,
			"MGPU_CORE_PERCENT": percent, "NVIDIA_VISIBLE_DEVICES": "void"}, "vke.volcengine.com/mgpu="+id)
	}
	entries := []checkpoint.PodDevicesEntry{
		{PodUID: "0d2ab3a5-3f1e-4f0e-9a55-0d1f3c0a9b01", ContainerName: "init", ResourceName: core,
			DeviceIDs: checkpoint.DevicesPerNUMA{-1: {"c5", "c2", "c3"}},
			AllocResp: ours("0123456789abcdef-k2j4", "0123456789abcdef", "3")},
		{PodUID: "0d2ab3a5-3f1e-4f0e-9a55-0d1f3c0a9b01", ContainerName: "main", ResourceName: core,
			DeviceIDs: checkpoint.DevicesPerNUMA{0: {"c7", "c1"}, 1: {"c4"}},
			AllocResp: ours("fedcba9876543210-m7", "fedcba9876543210", "3")},
		{PodUID: "0d2ab3a5-3f1e-4f0e-9a55-0d1f3c0a9b01", ContainerName: "main", ResourceName: "example.com/nic",
			DeviceIDs: checkpoint.DevicesPerNUMA{-1: {"nic-0"}},
			AllocResp: response(map[string]string{"NIC": "0"})},
		{PodUID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", ContainerName: "other", ResourceName: core,
			DeviceIDs: checkpoint.DevicesPerNUMA{-1: {"c9"}},
			AllocResp: response(nil)},
	}
	registered := map[string][]string{core: {"c0", "c1", "c2"}, "example.com/nic": {"nic-0"}}
	write("checkpoint.json", checkpoint.New(entries, registered))
	write("checkpoint-empty.json", checkpoint.New(nil, nil))
}
