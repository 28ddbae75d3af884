package packaging

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
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

// architecture holds the names of an architecture.
type architecture struct {
	goarch, rpm, systemd string
	machine              elf.Machine
}

var (
	amd64  = architecture{"amd64", "x86_64", "x86-64", elf.EM_X86_64}
	arm64  = architecture{"arm64", "aarch64", "arm64", elf.EM_AARCH64}
	arches = []architecture{amd64, arm64}
	// programs have a list of their modules each.
	programs = []string{"partition-fleet", "partition-generator", "partition-installer", "partition-monitor"}
)

// onEach runs a test for each architecture, at the same time as others.
func onEach(t *testing.T, test func(*testing.T, architecture)) {
	t.Helper()
	t.Parallel()
	for _, a := range arches {
		t.Run(a.goarch, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// once builds a release of both architectures for all tests.
var once = sync.OnceValue(func() error { return release(shared) })

// release builds a release in a folder.
func release(bin string) error {
	cmd := exec.Command("make", "-C", "../..", "release", "VERSION=v0.1.0-rc.1", "BIN="+bin, "SIGN=gzip -nk")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// shared is the folder of the release that once builds.
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
func packages(t *testing.T, a architecture) (deb, rpm string) {
	t.Helper()
	if err := once(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(shared, "release")
	return filepath.Join(dir, "node-partition_0.1.0~rc.1-1_"+a.goarch+".deb"), filepath.Join(dir, "node-partition-0.1.0~rc.1-1."+a.rpm+".rpm")
}

// archive returns the path of the archive that once builds.
func archive(t *testing.T, a architecture) string {
	t.Helper()
	packages(t, a)
	return filepath.Join(shared, "release/node-partition-0.1.0-rc.1-linux-"+a.goarch+".tar.gz")
}

// installed maps the files that make install installs to their modes.
func installed(t *testing.T, a architecture) map[string]fs.FileMode {
	t.Helper()
	packages(t, a)
	found := modes(t, filepath.Join(shared, "linux-"+a.goarch, "stage"))
	delete(found, "/usr/share/doc/node-partition/installed") // for the next make install
	return found
}

// modes maps the files in a folder to their modes.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			found[strings.TrimPrefix(file, dir)] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
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

// TestRelease: a release has its packages, system extensions, archives and SBOMs for each
// architecture, and its sources, image, chart and checksums. The same commit gives the same bytes,
// wherever and whenever it is built. The command that signs gets the checksums, and the SBOM names
// what the programs contain.
func TestRelease(t *testing.T) {
	t.Parallel()
	packages(t, amd64)
	another := filepath.Join(t.TempDir(), "another-folder")
	if err := release(another); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(another, "release")
	all := [2][]string{sums(t, filepath.Join(shared, "release")), sums(t, dir)}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("%q\nand %q", all[0], all[1])
	}
	names := make([]string, 0, len(all[0]))
	for _, sum := range all[0] {
		names = append(names, strings.Fields(sum)[0])
	}
	want := make([]string, 0, len(names))
	want = append(want,
		"/SHA256SUMS", "/SHA256SUMS.gz", "/node-partition-0.1.0-rc.1.tar.gz", "/node-partition-0.1.0-rc.1.tgz",
		"/node-partition-installer-0.1.0-rc.1.oci.tar",
	)
	for _, a := range arches {
		want = append(want, "/node-partition_0.1.0~rc.1-1_"+a.goarch+".deb", "/node-partition-0.1.0~rc.1-1."+a.rpm+".rpm",
			"/node-partition-0.1.0~rc.1-"+a.systemd+".raw", "/node-partition-0.1.0-rc.1-linux-"+a.goarch+".tar.gz")
		for _, program := range programs {
			want = append(want, "/"+program+"-0.1.0-rc.1-linux-"+a.goarch+".cdx.json")
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the release has %q, want %q", names, want)
	}
	checked := command(t, "sh", "-c", `cd "$0" && sha256sum -c SHA256SUMS`, dir)
	if strings.Count(checked, ": OK\n") != len(want)-2 {
		t.Errorf("checksums: %s", checked)
	}
	root := t.TempDir()
	command(t, "tar", "-xzf", archive(t, amd64), "--strip-components=1", "-C", root)
	version := command(t, filepath.Join(root, "usr/bin/partition-monitor"), "--version")
	if !strings.Contains(version, "v0.1.0-rc.1") {
		t.Errorf("the program in the archive prints %q", version)
	}
	at := strings.TrimSpace(command(t, "git", "-c", "safe.directory=*", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"))
	for _, a := range arches {
		for _, program := range programs {
			data, err := os.ReadFile(filepath.Join(dir, program+"-0.1.0-rc.1-linux-"+a.goarch+".cdx.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{`"bomFormat": "CycloneDX"`, `"name": "k8s.io/apimachinery"`, "#cmd/" + program + `"`, `"name": "std"`, `"timestamp": "` + at + `"`} {
				if !strings.Contains(string(data), part) {
					t.Errorf("the SBOM of %s for %s does not have %s", program, a.goarch, part)
				}
			}
		}
	}
}

// digest returns the SHA-256 of a file.
func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// TestPrograms: whatever is released for an architecture has programs for it, and says so.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, a := range arches {
		debFile, rpmFile := packages(t, a)
		root := t.TempDir()
		command(t, "dpkg-deb", "-x", debFile, filepath.Join(root, "deb"))
		command(t, "tar", "-xzf", archive(t, a), "--strip-components=1", "--one-top-level="+filepath.Join(root, "archive"))
		command(t, "unsquashfs", "-no-progress", "-no-xattrs", "-dest", filepath.Join(root, "sysext"), extension(t, a))
		command(t, "tar", "-xf", filepath.Join(shared, "linux-"+a.goarch, "image.tar"), "--one-top-level="+filepath.Join(root, "image"))
		inRPM := command(t, "rpm", "-qp", "--queryformat", `[%{FILEDIGESTS} %{FILENAMES}\n]`, rpmFile)
		for _, path := range []string{"/usr/bin/partition-monitor", "/usr/lib/systemd/system-generators/partition-generator"} {
			built := filepath.Join(shared, "linux-"+a.goarch, filepath.Base(path))
			program, err := elf.Open(built)
			if err != nil {
				t.Fatal(err)
			}
			if program.Machine != a.machine {
				t.Errorf("%s for %s is for %v", filepath.Base(path), a.goarch, program.Machine)
			}
			want := digest(t, built)
			for _, kind := range []string{"deb", "archive", "sysext", "image/payload"} {
				if digest(t, filepath.Join(root, kind, path)) != want {
					t.Errorf("the %s for %s has another %s than was built for it", kind, a.goarch, path)
				}
			}
			if !strings.Contains(inRPM, want+" "+path+"\n") {
				t.Errorf("the rpm for %s has another %s than was built for it:\n%s", a.goarch, path, inRPM)
			}
			if err := program.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := command(t, "dpkg-deb", "-f", debFile, "Architecture"); got != a.goarch+"\n" {
			t.Errorf("the deb for %s is for %s", a.goarch, got)
		}
		if got := command(t, "rpm", "-qp", "--queryformat", "%{ARCH}", rpmFile); got != a.rpm {
			t.Errorf("the rpm for %s is for %s", a.goarch, got)
		}
	}
}

// TestImage: the image has the programs of a roll, and below /payload what make install installs with
// its record. All of it belongs to root.
func TestImage(t *testing.T) {
	onEach(t, image)
}

func image(t *testing.T, a architecture) {
	t.Helper()
	want := map[string]fs.FileMode{
		"/partition-fleet": 0o755, "/partition-installer": 0o755, "/payload/usr/share/doc/node-partition/installed": 0o644,
	}
	for path, mode := range installed(t, a) {
		want["/payload"+path] = mode
	}
	layer, tree := filepath.Join(shared, "linux-"+a.goarch, "image.tar"), filepath.Join(t.TempDir(), "tree")
	command(t, "tar", "-xf", layer, "--one-top-level="+tree)
	if got := modes(t, tree); !maps.Equal(got, want) {
		t.Errorf("the image has %v\nwant %v", got, want)
	}
	for line := range strings.Lines(command(t, "tar", "-tvf", layer)) {
		if !strings.Contains(line, " root/root ") || line[0] == 'd' && !strings.HasPrefix(line, "drwxr-xr-x ") {
			t.Errorf("the image has %s", line)
		}
	}
}

// TestReleaseRefused: a release has a version.
func TestReleaseRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v0.1.0-dirty", "v0.1.0-5-g3f1fd6b", "3f1fd6b", "unknown"} {
		out, err := exec.Command("make", "-C", "../..", "release", "VERSION="+version, "BIN="+t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "version "+version+": want a commit with a tag such as v0.1.0") {
			t.Errorf("%s: %v, %s", version, err, out)
		}
	}
}

// TestContents: the packages have the files that make install installs, and else only those that a
// format asks for.
func TestContents(t *testing.T) {
	onEach(t, contents)
}

func contents(t *testing.T, a architecture) {
	t.Helper()
	debFile, rpmFile := packages(t, a)
	listed := installed(t, a)
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
		for to := range listed {
			switch {
			case kind.name == "rpm" && (path.Base(to) == "LICENSE" || path.Base(to) == "third-party-licenses"):
				to = "/usr/share/licenses/node-partition/" + path.Base(to)
			case path.Base(to) == "LICENSE":
				continue
			case kind.name == "deb" && path.Base(to) == "CHANGELOG.md":
				to = path.Dir(to) + "/changelog.gz"
			case kind.name == "deb" && path.Base(to) == "_partition-monitor":
				to = "/usr/share/zsh/vendor-completions/_partition-monitor"
			case strings.HasPrefix(to, "/usr/share/man/"):
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
	for _, a := range arches {
		debFile, rpmFile := packages(t, a)
		if out := command(t, "lintian", "--allow-root", "--fail-on", "error,warning", debFile); strings.TrimSpace(out) != "" {
			t.Errorf("lintian of %s: %s", a.goarch, out)
		}
		if out := command(t, "rpmlint", "-c", "rpmlint.toml", rpmFile); !strings.Contains(out, " 0 errors, 0 warnings,") {
			t.Errorf("rpmlint of %s: %s", a.goarch, out)
		}
	}
	scripts, err := filepath.Glob("scripts/*-*")
	if err != nil || len(scripts) != 8 {
		t.Fatalf("the scripts are %q, %v", scripts, err)
	}
	for _, script := range scripts {
		whole := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(whole, []byte(composed(t, filepath.Base(script))), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, "shellcheck", whole)
	}
}

// composed returns a script as it is in a package: the functions that all of them share, and its own
// lines.
func composed(t *testing.T, script string) string {
	t.Helper()
	functions, err := os.ReadFile("scripts/functions")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join("scripts", script))
	if err != nil {
		t.Fatal(err)
	}
	return string(functions) + string(own)
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
