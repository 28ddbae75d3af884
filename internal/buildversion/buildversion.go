// Package buildversion knows the version of the program that it is a part of.
package buildversion

import "runtime/debug"

// set is set by the Makefile, from git.
var set string

// String returns the version: from make a tag or a commit, from go install that of the module, and
// "unknown" of a program that go build has made without git.
func String() string {
	if set != "" {
		return set
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}
