package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// built returns the path of a program or library in the build folder.
func built(t testing.TB, path string) string {
	t.Helper()
	folder := os.Getenv("MGPU_BUILD_FOLDER")
	if folder == "" {
		t.Fatal("MGPU_BUILD_FOLDER is not set; the tests of ctest in test/cluster/CMakeLists.txt set it")
	}
	return filepath.Join(folder, path)
}

// extenderBinary returns the program of the build folder, or that of MGPU_EXTENDER_BINARY in a soak.
func extenderBinary(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv("MGPU_EXTENDER_BINARY"); binary != "" {
		return binary
	}
	return built(t, "extender/mgpu-extender")
}

func pluginBinary(t testing.TB) string      { return built(t, "plugin/mgpu-device-plugin") }
func kubectlMgpuBinary(t testing.TB) string { return built(t, "extender/kubectl-mgpu") }

// mpsControlBinary returns the stand-in for NVIDIA's control program of MPS (test/gpu/mps_control.cc).
func mpsControlBinary(t testing.TB) string { return built(t, "test/fake_mps_control") }
