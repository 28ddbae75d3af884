// Package program builds programs for tests.
package program

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds the main package pkg as the file path: static, as "make build" does, but without a
// version.
func Build(pkg, path string) error { return build(pkg, path, "build") }

// BuildTest builds the tests and benchmarks of the package pkg as the file path, in the same way,
// including those for nodes.
func BuildTest(pkg, path string) error { return build(pkg, path, "test", "-c", "-tags", "node") }

func build(pkg, path string, command ...string) error {
	cmd := exec.Command("go", append(command, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}
