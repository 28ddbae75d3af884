package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// NeedProgram returns the path of a program from the given Debian package.
func NeedProgram(tb testing.TB, name, debianPackage string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		cannot(tb, "%v: install the package %s", err, debianPackage)
	}
	return path
}

// cannot ends a test that cannot run on this machine. In CI, where the variable CI is set, every
// test has to run.
func cannot(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}
