//go:build style

package style

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/testkit"
)

const root = "../.."

// tracked returns the regular files that git has of these patterns, relative to the root, and fails
// if there are none.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"-c", "safe.directory=*", "ls-files", "-z", "--"}, patterns...)
	out, _ := run(t, testkit.NeedProgram(t, "git", "git"), args...)
	var files []string
	for file := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, file)); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no files of %q: this test does not find them any more", patterns)
	}
	return files
}

// run runs a program at the root, and returns what it prints, without and with its errors.
func run(t *testing.T, program string, args ...string) (stdout, all string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err := cmd.Run()
	all = out.String() + errors.String()
	if err != nil && all == "" {
		t.Fatalf("%s: %v", program, err)
	}
	return out.String(), all
}

// wrong returns the path of a file with a fault, which a tool has to find.
func wrong(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clean: a tool finds nothing in the files, and the fault in the file that has one.
func clean(t *testing.T, found, faults, fault string) {
	t.Helper()
	if found = strings.TrimSpace(found); found != "" {
		t.Error(found)
	}
	if !strings.Contains(faults, fault) {
		t.Errorf("the tool does not find %q where it is: %q", fault, faults)
	}
}

// TestManuals: the manual pages have no warnings.
func TestManuals(t *testing.T) {
	t.Parallel()
	mandoc := testkit.NeedProgram(t, "mandoc", "mandoc")
	lint := func(files ...string) string {
		_, all := run(t, mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...)
		return all
	}
	const fault = ".Dd $Mdocdate$\n.Dt A 8\n.Os\n.Sh NAME\n.Nm a\n.Sh DESCRIPTION\n.Pp\n.Bl -tag -width Ds\n.It b\nc\n.El\n"
	clean(t, lint(tracked(t, "man")...), lint(wrong(t, "a.8", fault)), "skipping paragraph macro")
}

// shell matches the first line of a script that a POSIX shell or bash runs, and of one that is
// sourced.
var shell = regexp.MustCompile(`^(#!.*\b(sh|dash|bash)\b|# shellcheck shell=)`)

// shellcheckArgs holds what shellcheck has to be told of some scripts. They are copied into the
// nodes of the lab: a comment in one would be a reason to build all disks again.
var shellcheckArgs = map[string]string{
	"tests/lab/guest/initrd/init": "--shell=dash", // for busybox, whose shell is a dash
	// The trap that reads the variable assigns it.
	"tests/lab/guest/common/usr/lib/lab/bake.sh": "--exclude=SC2154",
	"tests/lab/guest/install/init":               "--exclude=SC2154",
}

// TestScripts: shellcheck finds nothing in any script. The scripts of a package are parts without a
// first line: TestLint of deploy/package checks them as they are composed.
func TestScripts(t *testing.T) {
	t.Parallel()
	shellcheck := testkit.NeedProgram(t, "shellcheck", "shellcheck")
	var plain []string
	var found strings.Builder
	told := 0
	for _, file := range tracked(t) {
		if first := firstLine(t, file); !shell.MatchString(first) {
			continue
		}
		if arg := shellcheckArgs[file]; arg != "" {
			told++
			_, all := run(t, shellcheck, arg, file)
			found.WriteString(all)
			continue
		}
		plain = append(plain, file)
	}
	if len(plain) == 0 || told != len(shellcheckArgs) {
		t.Errorf("%d scripts, and %d that shellcheck is told about: this test does not find them any more", len(plain), told)
	}
	_, all := run(t, shellcheck, plain...)
	_, faults := run(t, shellcheck, wrong(t, "a", "#!/bin/sh\nrm $1\n"))
	clean(t, found.String()+all, faults, "SC2086")
}

// firstLine returns the first line of a file, or the beginning of a long one.
func firstLine(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := make([]byte, 100)
	n, _ := f.Read(start) // an empty file has none
	line, _, _ := strings.Cut(string(start[:n]), "\n")
	return line
}

// fenced matches a block of YAML in a document.
var fenced = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// TestYAML: yamllint finds nothing in the YAML of the repository and in the examples of the
// documents. Templates become YAML when Helm renders them: the result, rollout/install.yaml,
// is among the files.
func TestYAML(t *testing.T) {
	t.Parallel()
	yamllint := testkit.NeedProgram(t, "yamllint", "yamllint")
	lint := func(files ...string) string {
		_, all := run(t, yamllint, append([]string{"-c", "tests/style/yamllint.yaml", "-f", "parsable"}, files...)...)
		return all
	}
	files := tracked(t, "*.yaml", "*.yml", ":!rollout/chart/templates", ":!internal/admission/policy.yaml")
	dir := t.TempDir()
	examples := 0
	for _, document := range tracked(t, "*.md") {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range fenced.FindAllSubmatch(text, -1) {
			unindented := regexp.MustCompile("(?m)^"+string(block[1])).ReplaceAll(block[2], nil)
			example := filepath.Join(dir, fmt.Sprintf("%s-%d.yaml", strings.ReplaceAll(document, "/", "-"), i))
			if err := os.WriteFile(example, unindented, 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, example)
			examples++
		}
	}
	if examples == 0 {
		t.Error("no examples: this test does not find them any more")
	}
	clean(t, lint(files...), lint(wrong(t, "a.yaml", "a: 1\na: 2\n")), "duplication of key")
}
