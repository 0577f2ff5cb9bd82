package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const profileTime = 3 * time.Second

// withProfiles lets the administrator read the CPU profiles of kube-scheduler.
func (s SchedulerCommand) withProfiles(c *ControlPlane) SchedulerCommand {
	kubeconfig := c.kubeconfig(adminToken)
	s.arguments = append(s.arguments, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	return s
}

// writeProfiles writes CPU profiles of the running kube-scheduler and of kube-apiserver, of the same time, to new files
// of the folder.
func (s SchedulerCommand) writeProfiles(folder, name string) error {
	errs := make(chan error)
	go func() {
		errs <- writeProfile(plane.apiServerPort, filepath.Join(folder, filepath.Base(name)+"-kube-apiserver"))
	}()
	err := writeProfile(s.port, filepath.Join(folder, filepath.Base(name)+"-kube-scheduler"))
	return errors.Join(err, <-errs)
}

// writeProfile writes a CPU profile of the component that listens on the port to a new file that begins with the prefix.
func writeProfile(port int, prefix string) error {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var answer *http.Response
	err := poll(time.Minute, filepath.Base(prefix)+" to be profiled", func() (bool, string) {
		request, err := http.NewRequest(http.MethodGet,
			fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/profile?seconds=%.0f", port, profileTime.Seconds()), nil)
		if err != nil {
			return false, err.Error()
		}
		request.Header.Set("Authorization", "Bearer "+adminToken)
		answer, err = client.Do(request)
		if err != nil {
			return false, err.Error()
		}
		if answer.StatusCode == http.StatusOK {
			return true, ""
		}
		answer.Body.Close()
		return false, answer.Status
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	file, err := os.CreateTemp(filepath.Dir(prefix), filepath.Base(prefix)+"-*.pb.gz")
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, answer.Body)
	return err
}
