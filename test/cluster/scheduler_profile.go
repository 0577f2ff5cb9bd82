package cluster

import (
	"crypto/tls"
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

// writeProfile writes a CPU profile of the running kube-scheduler to a new file of the folder.
func (s SchedulerCommand) writeProfile(folder, name string) error {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var answer *http.Response
	err := poll(time.Minute, "kube-scheduler to be profiled", func() (bool, string) {
		request, err := http.NewRequest(http.MethodGet,
			fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/profile?seconds=%.0f", s.port, profileTime.Seconds()), nil)
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
	file, err := os.CreateTemp(folder, filepath.Base(name)+"-*.pb.gz")
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, answer.Body)
	return err
}
