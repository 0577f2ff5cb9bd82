package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	muslLoader  = "/lib/ld-musl-x86_64.so.1"
	muslProgram = "/usr/bin/musl-program"
)

// loadsTheDriver does what programs do that use a driver where there is one.
const loadsTheDriver = `
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  printf("MUSL %s\n", driver != NULL ? "has a driver" : dlerror());
  return 0;
}
`

// addMusl gives containers musl and a program that is built for it. What is there for programs with glibc, musl does not find.
func (p *DevicePlugin) addMusl(t *testing.T) {
	t.Helper()
	loader, err := filepath.EvalSymlinks(muslLoader)
	if err != nil {
		t.Fatalf("%v; install the Debian package musl-tools", err)
	}
	source, program := p.path("driver.c"), p.path("musl-program")
	if err := os.WriteFile(source, []byte(loadsTheDriver), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("musl-gcc", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.mounts = append(p.mounts, TestMount{HostPath: loader, ContainerPath: muslLoader},
		TestMount{HostPath: program, ContainerPath: muslProgram})
}

// Images with musl start with a part of a card, and their programs find no driver, which is built for glibc: as they do
// without the library.
func TestNodeLibraryLeavesImagesWithMusl(t *testing.T) {
	world := newInterceptWorld(t)
	world.plugin.kill()
	world.plugin.addMusl(t)
	world.plugin.writeCards(t, world.plugin.cards)
	world.plugin.startAgain(t)
	script := "unset LD_LIBRARY_PATH\n" + muslProgram + "\n"
	world.createBound(t, world.pod("musl").share(30, 2048).share(20, 4096).running(script), "0", "0")
	pod := world.waitRunning(t, "musl")
	for _, container := range []string{"c0", "c1"} {
		world.node.viewOf(t, pod, container)
		log := world.node.logOf(pod, container)
		if want := "MUSL Error loading shared library libcuda.so.1: No such file or directory"; !strings.Contains(log, want) {
			t.Errorf("a program of %s printed %q, want %q", container, log, want)
		}
	}
}
