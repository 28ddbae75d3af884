package testkit

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds the main package pkg as the file path: static, as "make build" does, but without a
// version.
func Build(pkg, path string) error { return BuildFor("", pkg, path) }

// BuildFor is Build for an architecture, as Go names it. The empty one is this machine's.
func BuildFor(arch, pkg, path string) error { return build(arch, pkg, path, "build") }

// BuildTest builds the tests and benchmarks of the package pkg as the file path, in the same way,
// including those for nodes.
func BuildTest(pkg, path string) error { return build("", pkg, path, "test", "-c", "-tags", "node") }

func build(arch, pkg, path string, command ...string) error {
	cmd := exec.Command("go", append(command, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}
