// Package kubelet reads from the running kubelet: its pods over its Pods API (KEP-4188; served by
// default since 1.37), and its command line, whose flags override the configuration file, and one
// of which names that file.
//
// It asks the process. What the files of the kubelet say is in internal/kubeletconfig. The
// generator links that package, and not this one.
package kubelet
