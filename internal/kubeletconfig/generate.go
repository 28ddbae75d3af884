package kubeletconfig

//go:generate go test -run TestKubeletIsGenerated -update .
