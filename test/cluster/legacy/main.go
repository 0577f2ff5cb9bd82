// Command legacy is kube-scheduler 1.22, the last version that reads a Policy.
package main

import (
	"os"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if err := app.NewSchedulerCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
