package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the main package pkg as the file path: static, as "make build" does, but without a
// version.
func Build(pkg, path string) error { return BuildFor("", pkg, path) }

// BuildFor is Build for an architecture, as Go names it. The empty one is this machine's.
func BuildFor(arch, pkg, path string) error { return build(arch, pkg, path, "build") }

// BuildTest builds the tests and benchmarks of the package pkg as the file path, in the same way,
// including those for nodes.
func BuildTest(pkg, path string) error { return build("", pkg, path, "test", "-c", "-tags", "node") }

// build builds in the module of the package, which has the versions that a release has.
func build(arch, pkg, path string, command ...string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	module, err := exec.Command("go", "list", "-tags", "node", "-f", "{{.Module.Dir}}", pkg).Output()
	if err != nil {
		return fmt.Errorf("the module of %s: %w", pkg, err)
	}
	cmd := exec.Command("go", append(command, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, pkg)...)
	cmd.Dir = strings.TrimSpace(string(module))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}
