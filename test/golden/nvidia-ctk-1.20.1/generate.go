//go:build ignore

// Records what nvidia-ctk lists for drivers that are installed in different ways. For each layout
// <name>.tree has the files of a node, <name>.yaml the CDI spec that nvidia-ctk printed, byte for
// byte, and <name>.links the links in /dev/char that it made. It builds nvidia-ctk, and NVML from test/gpu/nvml/nvml.cc, and runs the tool
// with each tree as its root directory, which needs root and ldconfig. In the root of the repository:
//
//	go run test/golden/nvidia-ctk-1.20.1/generate.go
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	toolkit = "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk@v1.20.1"
	folder  = "test/golden/nvidia-ctk-1.20.1"
	version = "580.95.05"
	uuid    = "GPU-00000000-0000-0000-0000-000000000001"
	debian  = "/usr/lib/x86_64-linux-gnu"
)

// library is a library of the driver: its file, and the links to it. "V" is the driver's version.
type library struct{ file, soname, development string }

// As in the packages libnvidia-compute, libnvidia-decode and libnvidia-encode of Ubuntu.
var computeLibraries = []library{
	{"libcuda.so.V", "libcuda.so.1", "libcuda.so"},
	{"libcudadebugger.so.V", "libcudadebugger.so.1", ""},
	{"libnvcuvid.so.V", "libnvcuvid.so.1", "libnvcuvid.so"},
	{"libnvidia-cfg.so.V", "libnvidia-cfg.so.1", "libnvidia-cfg.so"},
	{"libnvidia-encode.so.V", "libnvidia-encode.so.1", "libnvidia-encode.so"},
	{"libnvidia-gpucomp.so.V", "libnvidia-gpucomp.so.V", ""},
	{"libnvidia-ml.so.V", "libnvidia-ml.so.1", "libnvidia-ml.so"},
	{"libnvidia-nvvm.so.V", "libnvidia-nvvm.so.4", "libnvidia-nvvm.so"},
	{"libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4", ""},
	{"libnvidia-opencl.so.V", "libnvidia-opencl.so.1", ""},
	{"libnvidia-opticalflow.so.V", "libnvidia-opticalflow.so.1", ""},
	{"libnvidia-pkcs11-openssl3.so.V", "libnvidia-pkcs11-openssl3.so.V", ""},
	{"libnvidia-pkcs11.so.V", "libnvidia-pkcs11.so.V", ""},
	{"libnvidia-ptxjitcompiler.so.V", "libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so"},
	{"libnvidia-sandboxutils.so.V", "libnvidia-sandboxutils.so.1", ""},
}

var graphicsLibraries = []library{
	{"libEGL_nvidia.so.V", "libEGL_nvidia.so.0", ""},
	{"libGLESv1_CM_nvidia.so.V", "libGLESv1_CM_nvidia.so.1", ""},
	{"libGLESv2_nvidia.so.V", "libGLESv2_nvidia.so.2", ""},
	{"libGLX_nvidia.so.V", "libGLX_nvidia.so.0", ""},
	{"libnvidia-allocator.so.V", "libnvidia-allocator.so.1", "libnvidia-allocator.so"},
	{"libnvidia-api.so.1", "libnvidia-api.so.1", ""},
	{"libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-gbm.so.1", ""},
	{"libnvidia-egl-wayland.so.1.1.19", "libnvidia-egl-wayland.so.1", ""},
	{"libnvidia-eglcore.so.V", "libnvidia-eglcore.so.V", ""},
	{"libnvidia-fbc.so.V", "libnvidia-fbc.so.1", "libnvidia-fbc.so"},
	{"libnvidia-glcore.so.V", "libnvidia-glcore.so.V", ""},
	{"libnvidia-glsi.so.V", "libnvidia-glsi.so.V", ""},
	{"libnvidia-glvkspirv.so.V", "libnvidia-glvkspirv.so.V", ""},
	{"libnvidia-gtk3.so.V", "libnvidia-gtk3.so.V", ""},
	{"libnvidia-ngx.so.V", "libnvidia-ngx.so.1", ""},
	{"libnvidia-present.so.V", "libnvidia-present.so.V", ""},
	{"libnvidia-rtcore.so.V", "libnvidia-rtcore.so.V", ""},
	{"libnvidia-tls.so.V", "libnvidia-tls.so.V", ""},
	{"libnvidia-vksc-core.so.V", "libnvidia-vksc-core.so.1", ""},
	{"libnvidia-wayland-client.so.V", "libnvidia-wayland-client.so.V", ""},
	{"libnvoptix.so.V", "libnvoptix.so.1", ""},
}

var programs = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control",
	"nvidia-cuda-mps-server", "nvidia-modprobe",
}

type layout struct {
	name      string
	arguments []string // of nvidia-ctk
	install   func(*tree)
}

var layouts = []layout{
	{"runfile", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries(debian, everything())
		t.library(debian+"/vdpau", library{"libvdpau_nvidia.so.V", "libvdpau_nvidia.so.1", ""})
		t.programs("/usr/bin", append(programs, "nvidia-xconfig"))
		t.file("/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so."+version, 0o755)
		t.file("/usr/lib/xorg/modules/drivers/nvidia_drv.so", 0o755)
		t.file("/usr/share/nvidia/nvoptix.bin", 0o644)
		t.file("/usr/share/glvnd/egl_vendor.d/10_nvidia.json", 0o644)
		t.file("/etc/vulkan/icd.d/nvidia_icd.json", 0o644)
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/lib/firmware")
		t.devices("")
		t.device("/dev/nvidia-modeset", 195, 254)
	}},
	{"debian", []string{"--driver-root=/"}, func(t *tree) {
		t.alternatives(debian, debian+"/nvidia/current", everything())
		t.programs("/usr/lib/nvidia/current", []string{"nvidia-smi"})
		t.alternative("/usr/bin/nvidia-smi", "nvidia--nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi")
		t.programs("/usr/bin", []string{"nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control"})
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/usr/lib/firmware")
		t.link("/lib", "usr/lib")
		t.devices("")
		t.file("/run/nvidia-persistenced/socket", 0o666)
		t.link("/var/run", "/run")
	}},
	{"ubuntu-server", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries(debian, computeLibraries)
		t.library(debian, library{"libcuda.so.570.195.03", "", ""})
		t.programs("/usr/bin", append(programs, "nvidia-imex", "nvidia-imex-ctl"))
		t.file("/usr/share/nvidia/nvidia-application-profiles-580.95.05-rc", 0o644)
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/lib/firmware")
		t.devices("")
		t.file("/run/nvidia-persistenced/socket", 0o666)
		t.file("/run/nvidia-fabricmanager/socket", 0o666)
		t.file("/tmp/nvidia-mps/control", 0o666)
	}},
	{"redhat", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries("/usr/lib64", everything())
		t.link("/lib64", "usr/lib64")
		t.library("/usr/lib64/vdpau", library{"libvdpau_nvidia.so.V", "libvdpau_nvidia.so.1", ""})
		t.file("/usr/lib/libcuda.so."+version, 0o755) // of 32 bits
		t.programs("/usr/bin", programs)
		t.file("/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", 0o644)
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/usr/lib/firmware")
		t.link("/lib", "usr/lib")
		t.devices("")
	}},
	// The packages cuda-drivers of NVIDIA's CUDA repository for Ubuntu, as NVIDIA/ubuntu-packaging-nvidia-driver
	// builds them.
	{"cuda-deb", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries(debian, everything())
		t.library(debian+"/vdpau", library{"libvdpau_nvidia.so.V", "libvdpau_nvidia.so.1", ""})
		t.programs("/usr/bin", append(programs, "nvidia-xconfig"))
		t.file("/usr/share/glvnd/egl_vendor.d/10_nvidia.json", 0o644)
		t.file("/usr/share/vulkan/icd.d/nvidia_icd.json", 0o644)
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/usr/lib/firmware")
		t.link("/lib", "usr/lib")
		t.devices("")
		t.device("/dev/nvidia-modeset", 195, 254)
		t.file("/run/nvidia-persistenced/socket", 0o666)
		t.link("/var/run", "/run")
	}},
	// The packages nvidia-driver-cuda, nvidia-driver-cuda-libs and nvidia-driver-NVML of NVIDIA's CUDA repository for
	// Red Hat's systems, as NVIDIA/yum-packaging-nvidia-driver builds them. Most links are in nvidia-driver-devel.
	{"cuda-rpm", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries("/usr/lib64", withoutDevelopment(computeLibraries))
		t.link("/usr/lib64/libcuda.so", "libcuda.so."+version)
		t.link("/lib64", "usr/lib64")
		t.programs("/usr/bin", programs)
		t.file("/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/usr/lib/firmware")
		t.link("/lib", "usr/lib")
		t.devices("")
		t.file("/run/nvidia-persistenced/socket", 0o666)
		t.link("/var/run", "/run")
	}},
	{"gpu-operator", []string{"--driver-root=/run/nvidia/driver", "--dev-root=/run/nvidia/driver"}, func(t *tree) {
		t.libraries("/run/nvidia/driver"+debian, everything())
		t.programs("/run/nvidia/driver/usr/bin", programs)
		t.file("/run/nvidia/driver/etc/OpenCL/vendors/nvidia.icd", 0o644)
		t.firmware("/run/nvidia/driver/lib/firmware")
		t.devices("/run/nvidia/driver")
		t.file("/run/nvidia/driver/run/nvidia-persistenced/socket", 0o666)
		t.file("/run/nvidia/driver/run/nvidia-fabricmanager/socket", 0o666)
	}},
	{"gpu-operator-redhat", []string{"--driver-root=/run/nvidia/driver", "--dev-root=/"}, func(t *tree) {
		t.libraries("/run/nvidia/driver/usr/lib64", computeLibraries)
		t.link("/run/nvidia/driver/lib64", "usr/lib64")
		t.programs("/run/nvidia/driver/usr/bin", programs)
		t.firmware("/run/nvidia/driver/usr/lib/firmware")
		t.link("/run/nvidia/driver/lib", "usr/lib")
		t.devices("")
	}},
	{"gke", []string{"--driver-root=/home/kubernetes/bin/nvidia", "--dev-root=/"}, func(t *tree) {
		t.libraries("/home/kubernetes/bin/nvidia/lib64", everything())
		t.programs("/home/kubernetes/bin/nvidia/bin", programs)
		t.file("/home/kubernetes/bin/nvidia/vulkan/icd.d/nvidia_icd.json", 0o644)
		t.firmware("/home/kubernetes/bin/nvidia/firmware")
		t.devices("")
	}},
	{"bottlerocket", []string{"--driver-root=/"}, func(t *tree) {
		t.libraries("/usr/lib/nvidia/tesla", withoutDevelopment(computeLibraries))
		t.ldconfig("", "/usr/lib/nvidia/tesla")
		t.programs("/usr/bin", []string{"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-modprobe"})
		t.link("/usr/libexec/nvidia/tesla/bin/nvidia-smi", "../../../../bin/nvidia-smi")
		t.firmware("/usr/lib/firmware")
		t.link("/lib", "usr/lib")
		t.devices("")
	}},
	{"talos", []string{"--driver-root=/", "--library-search-path=/usr/local/glibc/usr/lib"}, func(t *tree) {
		t.libraries("/usr/local/glibc/usr/lib", withoutDevelopment(computeLibraries))
		t.programs("/usr/local/bin", programs)
		t.link("/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi")
		t.firmware("/lib/firmware")
		t.devices("")
		t.file("/var/run/nvidia-persistenced/socket", 0o666)
	}},
}

func everything() []library { return append(slices.Clone(computeLibraries), graphicsLibraries...) }

func withoutDevelopment(libraries []library) []library {
	result := slices.Clone(libraries)
	for i := range result {
		result[i].development = ""
	}
	return result
}

// tree is the file system of a node. Its lines describe it for the unit tests.
type tree struct {
	root, nvml, scratch string
	lines               []string
}

func (t *tree) place(path string) string {
	full := filepath.Join(t.root, path)
	must(os.MkdirAll(filepath.Dir(full), 0o755))
	return full
}

func (t *tree) file(path string, mode os.FileMode) {
	must(os.WriteFile(t.place(path), nil, mode))
	must(os.Chmod(filepath.Join(t.root, path), mode))
	t.lines = append(t.lines, "file "+path)
}

func (t *tree) link(path, target string) {
	full := t.place(path)
	// The folder exists if files were put into it before the link to it was made.
	must(os.Symlink(target, full))
	t.lines = append(t.lines, "link "+path+" "+target)
}

func (t *tree) device(path string, major, minor uint64) {
	must(syscall.Mknod(t.place(path), syscall.S_IFCHR|0o666, int(major<<8|minor)))
	must(os.Chmod(filepath.Join(t.root, path), 0o666))
	t.lines = append(t.lines, fmt.Sprintf("device %s %d %d", path, major, minor))
}

// library adds the file and its links. nvidia-ctk reads the SONAME from the file.
func (t *tree) library(folder string, l library) {
	file := versioned(l.file)
	full := t.place(filepath.Join(folder, file))
	if strings.HasPrefix(file, "libnvidia-ml.so.") {
		run("cp", t.nvml, full)
	} else {
		arguments := []string{"-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", full}
		if l.soname != "" {
			arguments = append(arguments, "-Wl,-soname,"+versioned(l.soname))
		}
		run("cc", arguments...)
	}
	t.lines = append(t.lines, "file "+filepath.Join(folder, file))
	if soname := versioned(l.soname); soname != "" && soname != file {
		t.link(filepath.Join(folder, soname), file)
	}
	if l.development != "" {
		t.link(filepath.Join(folder, l.development), versioned(l.soname))
	}
}

func (t *tree) libraries(folder string, libraries []library) {
	for _, l := range libraries {
		t.library(folder, l)
	}
}

// alternatives installs libraries as Debian does: those with a SONAME of their own are in a private
// folder, and names in the public one lead there through /etc/alternatives.
func (t *tree) alternatives(folder, private string, libraries []library) {
	for _, l := range libraries {
		if versioned(l.soname) == versioned(l.file) {
			t.library(folder, l)
			continue
		}
		t.library(private, l)
		for _, name := range []string{l.soname, l.development} {
			if name != "" {
				t.alternative(filepath.Join(folder, name), "nvidia--"+name+"-x86_64-linux-gnu", filepath.Join(private, name))
			}
		}
	}
}

func (t *tree) alternative(path, name, target string) {
	t.link(path, "/etc/alternatives/"+name)
	t.link("/etc/alternatives/"+name, target)
}

func (t *tree) programs(folder string, names []string) {
	for _, name := range names {
		t.file(filepath.Join(folder, name), 0o755)
	}
}

func (t *tree) firmware(folder string) {
	for _, name := range []string{"gsp_ga10x.bin", "gsp_tu10x.bin", "ucodes.bin"} {
		t.file(filepath.Join(folder, "nvidia", version, name), 0o444)
	}
}

func (t *tree) devices(root string) {
	t.device(root+"/dev/nvidia0", 195, 0)
	t.device(root+"/dev/nvidiactl", 195, 255)
	t.device(root+"/dev/nvidia-uvm", 510, 0)
	t.device(root+"/dev/nvidia-uvm-tools", 510, 1)
}

// ldconfig makes the cache of the loader, which has these folders beside the usual ones.
func (t *tree) ldconfig(root string, folders ...string) {
	must(os.WriteFile(t.place(root+"/etc/ld.so.conf"), []byte(strings.Join(folders, "\n")+"\n"), 0o644))
	run("ldconfig", "-r", filepath.Join(t.root, root))
}

func versioned(name string) string { return strings.TrimSuffix(name, "V") + suffix(name) }

func suffix(name string) string {
	if strings.HasSuffix(name, ".V") {
		return version
	}
	return ""
}

// run returns the standard output of a program that succeeds.
func run(name string, arguments ...string) string {
	command := exec.Command(name, arguments...)
	var problems strings.Builder
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		log.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, problems.String())
	}
	return string(output)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// addTool puts nvidia-ctk, the loader and the libraries that it needs into one folder of the tree.
func addTool(t *tree, tool string) {
	own := filepath.Join(t.root, "recorder")
	must(os.MkdirAll(own, 0o755))
	must(os.MkdirAll(filepath.Join(t.root, "tmp"), 0o777))
	for _, line := range strings.Split(run("ldd", tool, t.nvml), "\n") {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
				run("cp", "-L", word, own)
			}
		}
	}
	run("cp", tool, own)
	scenario := fmt.Sprintf("driver %s\nnvml 13.%s\ncard %s\n", version, version, uuid)
	must(os.WriteFile(filepath.Join(own, "scenario"), []byte(scenario), 0o644))
}

func record(l layout, tool, nvml, scratch string) {
	t := &tree{root: filepath.Join(scratch, l.name), nvml: nvml}
	l.install(t)
	addTool(t, tool)
	// libnvidia-sandboxutils.so of the tree has no functions.
	spec := t.toolkit(append([]string{"cdi", "generate", "--mode=nvml",
		"--feature-flag=disable-nvsandboxutils"}, l.arguments...)...)
	must(os.WriteFile(filepath.Join(folder, l.name+".yaml"), []byte(spec), 0o644))
	must(os.WriteFile(filepath.Join(folder, l.name+".tree"), []byte(strings.Join(t.lines, "\n")+"\n"), 0o644))
	t.toolkit("system", "create-dev-char-symlinks")
	must(os.WriteFile(filepath.Join(folder, l.name+".links"), []byte(t.deviceLinks()), 0o644))
}

// toolkit runs nvidia-ctk with the tree as its root directory.
func (t *tree) toolkit(arguments ...string) string {
	return run("chroot", append([]string{t.root, "/recorder/ld-linux-x86-64.so.2", "--library-path",
		"/recorder", "/recorder/nvidia-ctk"}, arguments...)...)
}

// deviceLinks has a line "195:255 /dev/nvidiactl" for each link in /dev/char.
func (t *tree) deviceLinks() string {
	links, err := filepath.Glob(filepath.Join(t.root, "dev/char/*"))
	must(err)
	var lines strings.Builder
	for _, link := range links {
		target, err := os.Readlink(link)
		must(err)
		fmt.Fprintln(&lines, filepath.Base(link), target)
	}
	return lines.String()
}

func main() {
	log.SetFlags(0)
	scratch, err := os.MkdirTemp("", "nvidia-ctk-")
	must(err)
	must(os.Setenv("GOBIN", scratch))
	run("go", "install", toolkit)
	nvml := filepath.Join(scratch, "libnvidia-ml.so")
	run("c++", "-std=c++20", "-shared", "-fPIC", "-static-libstdc++", "-static-libgcc", "-I.",
		"-Wl,-soname,libnvidia-ml.so.1", "-o", nvml, "test/gpu/nvml/nvml.cc", "test/gpu/machine.cc")
	must(os.Setenv("MGPU_FAKE_NVML", "/recorder/scenario"))
	must(os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
	for _, l := range layouts {
		record(l, filepath.Join(scratch, "nvidia-ctk"), nvml, scratch)
	}
	must(os.RemoveAll(scratch))
}
