// Command linkedtypes only links the kubelet's configuration types. partition-generator decodes on
// fields cut out of those types, and so saves the time that this takes longer than an empty
// program.
package main

import (
	"fmt"
	"os"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func main() {
	var config kubeletv1beta1.KubeletConfiguration
	fmt.Fprint(os.Stdout, config.CgroupDriver)
}
