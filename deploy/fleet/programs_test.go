// Package fleet has the ways to give many nodes their partition without the controller, and tests
// that run or read each of them with the tool that it is for. docs/fleet.md lists what was not
// run.
package fleet

import (
	"os"
	"os/exec"
	"testing"

	"sigs.k8s.io/yaml"
)

// program returns the path of a program from a Debian package. In CI it has to be there.
func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%v: install the package %s", err, debianPackage)
	default:
		t.Skipf("%v: install the package %s", err, debianPackage)
	}
	return path
}

// run runs a program, which has to end well, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(t, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// output runs a program, and returns what it prints.
func output(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1", "ANSIBLE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// read returns the content of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// strict decodes YAML. A field that the type does not have is an error.
func strict[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return value
}
