package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// command runs a program, which tests/setup installs, and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// built runs make for a target of two folders with other names, and returns the folders.
func built(t *testing.T, args ...string) [2]string {
	t.Helper()
	var folders [2]string
	for i, name := range []string{"one", "another"} {
		bin := filepath.Join(t.TempDir(), name)
		command(t, "make", append([]string{"-C", "../..", "ARCHES=amd64", "BIN=" + bin}, args...)...)
		folders[i] = filepath.Join(bin, args[0])
	}
	return folders
}

// once builds the packages of amd64 for all tests.
var once = sync.OnceValue(func() error {
	cmd := exec.Command("make", "-C", "../..", "packages", "ARCHES=amd64", "VERSION=v0.1.0", "BIN="+shared)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// shared is the folder of the packages that once builds.
var shared string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "node-partition-package")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		shared = dir
		return m.Run()
	}())
}

// packages returns the paths of the packages that once builds.
func packages(t *testing.T) (deb, rpm string) {
	t.Helper()
	if err := once(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(shared, "packages/node-partition_0.1.0-1_amd64.deb"), filepath.Join(shared, "packages/node-partition-0.1.0-1.x86_64.rpm")
}

// sums returns the names and digests of the files in a folder.
func sums(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		all = append(all, fmt.Sprintf("%s %x", strings.TrimPrefix(file, dir), sha256.Sum256(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBytesAreEqual: the same commit gives the same packages, wherever and whenever they are built.
func TestBytesAreEqual(t *testing.T) {
	t.Parallel()
	folders := built(t, "packages")
	one, another := sums(t, folders[0]), sums(t, folders[1])
	if len(one) != 2 || !slices.Equal(one, another) {
		t.Errorf("%q\nand %q", one, another)
	}
}

// TestContents: the packages have the files that make install installs, and else only those that a
// format asks for.
func TestContents(t *testing.T) {
	t.Parallel()
	debFile, rpmFile := packages(t)
	data, err := os.ReadFile(filepath.Join(shared, "linux-amd64/list"))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := readList(strings.NewReader(string(data)), "../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name string
		got  string
		want []string
	}{
		{
			"deb", command(t, "sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -t | grep -v '/$' | sed 's|^\.||'`, debFile),
			[]string{
				"/etc/default/node-partition", "/usr/share/doc/node-partition/copyright", "/usr/share/doc/node-partition/changelog.Debian.gz",
				"/usr/share/lintian/overrides/node-partition",
			},
		},
		{
			"rpm", command(t, "sh", "-c", `rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' "$0" | sed -n 's|^[^d][^ ]* ||p'`, rpmFile),
			[]string{"/etc/default/node-partition", "/etc/sysconfig/node-partition"},
		},
	} {
		want := kind.want
		for _, f := range listed {
			to := f.path
			switch {
			case kind.name == "rpm" && (path.Base(to) == "LICENSE" || path.Base(to) == "third-party-licenses"):
				to = "/usr/share/licenses/node-partition/" + path.Base(to)
			case strings.HasSuffix(to, "/node-partition/LICENSE"):
				continue
			case kind.name == "deb" && path.Base(to) == "CHANGELOG.md":
				to = path.Dir(to) + "/changelog.gz"
			case path.Base(to) == "_partition-monitor" && kind.name == "deb":
				to = "/usr/share/zsh/vendor-completions/_partition-monitor"
			case path.Ext(to) == ".8":
				to += ".gz"
			}
			want = append(want, to)
		}
		got := strings.Fields(kind.got)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q\nwant %q", kind.name, got, want)
		}
	}
	if got := command(t, "dpkg-deb", "-I", debFile, "conffiles"); got != "/etc/default/node-partition\n" {
		t.Errorf("configuration files of the deb: %q", got)
	}
	if got := command(t, "rpm", "-qpc", rpmFile); got != "/etc/sysconfig/node-partition\n" {
		t.Errorf("configuration files of the rpm: %q", got)
	}
	if got := command(t, "rpm", "-qp", "--requires", rpmFile); strings.Contains(got, "systemd") {
		t.Errorf("the rpm does not install without systemd: it requires %q", got)
	}
}

// TestLint: the tools of the distributions have nothing to say but what is overridden with a
// reason.
func TestLint(t *testing.T) {
	t.Parallel()
	debFile, rpmFile := packages(t)
	if out := command(t, "lintian", "--allow-root", "--fail-on", "error,warning", debFile); strings.TrimSpace(out) != "" {
		t.Errorf("lintian: %s", out)
	}
	if out := command(t, "rpmlint", "-c", "rpmlint.toml", rpmFile); !strings.Contains(out, " 0 errors, 0 warnings,") {
		t.Errorf("rpmlint: %s", out)
	}
	for _, scripts := range []string{deb.scripts.PreInstall, deb.scripts.PostInstall, deb.scripts.PreRemove, deb.scripts.PostRemove,
		rpm.scripts.PreInstall, rpm.scripts.PostInstall, rpm.scripts.PreRemove, rpm.scripts.PostRemove} {
		composed, err := compose("../..", scripts, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		command(t, "shellcheck", composed)
	}
	command(t, "shellcheck", "../completions/partition-monitor.bash")
}

// TestCompletions: each shell loads its completions and completes a command and an option.
func TestCompletions(t *testing.T) {
	t.Parallel()
	const bash = `. ../completions/partition-monitor.bash
for line in 'che' 'check --ig' 'check --output '; do
	COMP_WORDS=(partition-monitor $line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	[[ $line == *' ' ]] && COMP_WORDS+=('') COMP_CWORD=$((COMP_CWORD + 1))
	_partition_monitor
	echo "${COMPREPLY[*]}"
done`
	if got := command(t, "bash", "-c", bash); got != "check\n--ignore\n\n" {
		t.Errorf("bash: %q", got)
	}
	// The file is the body of a function, which compinit calls where words are completed.
	const zsh = `_describe() { shift $(($# - 1)); print -rl -- ${(P)1}; }
_files() { echo files; }
body=$(<../completions/_partition-monitor)
functions[complete]=$body
for line in 'che' 'check --ig' 'check x'; do
	words=(partition-monitor ${=line}) CURRENT=$#words
	complete | grep -c -e ^check: -e ^--ignore: -e '^files$'
done`
	if got := command(t, "zsh", "-fc", zsh); got != "1\n1\n1\n" {
		t.Errorf("zsh: %q", got)
	}
	const fish = `source ../completions/partition-monitor.fish
complete -C "partition-monitor che"; complete -C "partition-monitor check --ig"`
	if got := command(t, "fish", "--no-config", "-c", fish); !strings.Contains(got, "check\t") || !strings.Contains(got, "--ignore\t") {
		t.Errorf("fish: %q", got)
	}
}
