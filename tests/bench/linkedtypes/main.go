// Command linkedtypes does nothing but link the kubelet's configuration types. What it takes longer than an empty
// program is what partition-generator saves by decoding on fields cut out of them.
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
