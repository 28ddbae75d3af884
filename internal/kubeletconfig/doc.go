// Package kubeletconfig finds, reads and merges the kubelet's configuration as the kubelet does, and
// decodes the part of it that bears on the system partition.
//
// The rules are the kubelet's own (seen in 1.37.0, cmd/kubelet/app/server.go):
//
//   - a main file in YAML or JSON, which must carry apiVersion and kind (loadConfigFile);
//   - drop-ins: every *.conf below the drop-in directory, subdirectories included, in the order of
//     filepath.WalkDir, each merged over what was there as a JSON merge patch (RFC 7386): objects are
//     merged, lists replaced, null removes (mergeKubeletConfigurations);
//   - fields it does not know are no error (DecodeKubeletConfiguration's lenient decoding).
//
// What differs is that the kubelet may read for as long as it likes. A generator must end: files,
// directories and what YAML aliases expand to are bounded.
package kubeletconfig
