// The control plane's three programs as one, chosen by the name that it is called by: most of their code is the same, and
// an image of one program is a third of the size of three.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // for the time zones of CronJobs

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	default:
		fmt.Fprintf(os.Stderr, "%s: call it kube-apiserver, kube-controller-manager or kube-scheduler\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
