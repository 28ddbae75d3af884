// Package kubeletconfig finds, reads and merges the kubelet's configuration as the kubelet does,
// and decodes the part of it that bears on the system partition.
//
// The rules are the kubelet's own (cmd/kubelet/app/server.go, seen in 1.37.0):
//
//   - A main file is YAML or JSON, and must have apiVersion and kind (loadConfigFile).
//   - Drop-ins are all *.conf files below the drop-in directory, subdirectories included, in the
//     order of filepath.WalkDir. Each is merged over the result so far as a JSON merge patch (RFC
//     7386): objects are merged, lists replaced, null removes (mergeKubeletConfigurations).
//   - Unknown fields are ignored (DecodeKubeletConfiguration's lenient decoding).
//
// There is one difference: the kubelet may read for as long as it likes. A generator must end, so
// files, directories and the expansion of YAML aliases are bounded.
package kubeletconfig
