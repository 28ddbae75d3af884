package packaging

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	programs = []string{"partition-generator", "partition-installer", "partition-monitor", "partition-rollout"}
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

// record is for the next make install.
const record = "/usr/share/doc/node-partition/installed"

// installed maps the files that make install installs to their modes and digests.
func installed(t *testing.T, a architecture) map[string]string {
	t.Helper()
	packages(t, a)
	found := files(t, filepath.Join(shared, "linux-"+a.goarch, "stage"))
	delete(found, record)
	return found
}

// files maps the files in a folder to their modes and digests.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		found[strings.TrimPrefix(file, dir)] = fmt.Sprintf("%04o %x", info.Mode(), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
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
	var sums [2]string
	for i, built := range []string{filepath.Join(shared, "release"), dir} {
		data, err := os.ReadFile(filepath.Join(built, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(data)
		command(t, "sh", "-c", `cd "$0" && sha256sum --quiet -c SHA256SUMS && gzip -dc SHA256SUMS.gz | cmp - SHA256SUMS`, built)
	}
	if sums[0] != sums[1] {
		t.Errorf("%s\nand %s", sums[0], sums[1])
	}
	names := regexp.MustCompile(`(?m)[^ \n]+$`).FindAllString(sums[0], -1)
	want := make([]string, 0, len(names))
	want = append(want,
		"node-partition-0.1.0-rc.1.tar.gz", "node-partition-0.1.0-rc.1.tgz",
		"node-partition-0.1.0-rc.1.oci.tar", "install.yaml",
		"kubectl-node_partition-0.1.0-rc.1.tar.gz", "node-partition.krew.yaml",
	)
	for _, a := range arches {
		want = append(want, "node-partition_0.1.0~rc.1-1_"+a.goarch+".deb", "node-partition-0.1.0~rc.1-1."+a.rpm+".rpm",
			"node-partition-0.1.0~rc.1-"+a.systemd+".raw", "node-partition-0.1.0-rc.1-linux-"+a.goarch+".tar.gz",
			"partition-installer-0.1.0-rc.1-linux-"+a.goarch)
		for _, program := range programs {
			want = append(want, program+"-0.1.0-rc.1-linux-"+a.goarch+".cdx.json")
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the release has %q, want %q", names, want)
	}
	root := t.TempDir()
	command(t, "tar", "-xzf", archive(t, amd64), "--strip-components=1", "-C", root)
	version := command(t, filepath.Join(root, "usr/bin/partition-monitor"), "--version")
	if !strings.Contains(version, "v0.1.0-rc.1") {
		t.Errorf("the program in the archive prints %q", version)
	}
	// As krew installs it: the archive has the sum, and the program its path.
	manifest := command(t, "cat", filepath.Join(dir, "node-partition.krew.yaml"))
	plugin := filepath.Join(dir, "kubectl-node_partition-0.1.0-rc.1.tar.gz")
	sum, _, _ := strings.Cut(command(t, "sha256sum", plugin), " ")
	command(t, "tar", "-xzf", plugin, "-C", root, "kubectl-node_partition", "LICENSE")
	if help := command(t, filepath.Join(root, "kubectl-node_partition"), "help"); !strings.Contains(help, "Usage: kubectl node-partition") ||
		!strings.Contains(manifest, `sha256: "`+sum+`"`) || !strings.Contains(manifest, `/v0.1.0-rc.1/`+filepath.Base(plugin)+`"`) || strings.Contains(manifest, "@") {
		t.Errorf("%s\nof %s with\n%s", manifest, sum, help)
	}
	at := strings.TrimSpace(command(t, "env", "TZ=UTC", "git", "-c", "safe.directory=*", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"))
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

// TestContents: whatever is released for an architecture has the files that make install installs,
// with programs for it, and else only what a format asks for.
func TestContents(t *testing.T) {
	onEach(t, contents)
}

func contents(t *testing.T, a architecture) {
	t.Helper()
	debFile, rpmFile := packages(t, a)
	root, layer := t.TempDir(), filepath.Join(shared, "linux-"+a.goarch, "image.tar")
	command(t, "tar", "-xzf", archive(t, a), "--strip-components=1", "--one-top-level="+filepath.Join(root, "archive"))
	command(t, "unsquashfs", "-no-progress", "-no-xattrs", "-dest", filepath.Join(root, "sysext"), extension(t, a))
	command(t, "tar", "-xf", layer, "--one-top-level="+filepath.Join(root, "image"))
	command(t, "dpkg-deb", "-x", debFile, filepath.Join(root, "deb"))
	inRPM := map[string]string{}
	for line := range strings.Lines(command(t, "rpm", "-qp", "--queryformat", `[%{FILEMODES:octal} %{FILEDIGESTS} %{FILENAMES}\n]`, rpmFile)) {
		if fields := strings.Fields(line); len(fields) == 3 { // a folder and a link have no digest
			inRPM[fields[2]] = fields[0][len(fields[0])-4:] + " " + fields[1]
		}
	}
	for _, kind := range []struct {
		name  string
		got   map[string]string
		place func(path string) string
		more  []string
	}{
		{"archive", files(t, filepath.Join(root, "archive")), func(path string) string { return path }, nil},
		{"sysext", files(t, filepath.Join(root, "sysext")), func(path string) string { return path }, []string{mergedUnit, upholding, extensionRelease}},
		{
			"image", files(t, filepath.Join(root, "image")), func(string) string { return "" }, // the installer has them in itself
			[]string{"/partition-installer", "/partition-rollout", "/LICENSE", "/third-party-licenses"},
		},
		{"deb", files(t, filepath.Join(root, "deb")), inDeb, []string{
			"/etc/default/node-partition", "/usr/share/doc/node-partition/copyright", "/usr/share/doc/node-partition/changelog.Debian.gz",
			"/usr/share/lintian/overrides/node-partition",
		}},
		{"rpm", inRPM, func(path string) string {
			switch filepath.Base(path) {
			case "LICENSE", "third-party-licenses":
				return "/usr/share/licenses/node-partition/" + filepath.Base(path)
			}
			return compressed(path)
		}, []string{"/etc/sysconfig/node-partition"}},
	} {
		want := map[string]string{}
		for path, file := range installed(t, a) {
			if path = kind.place(path); strings.HasSuffix(path, ".gz") {
				file = kind.got[path]
			}
			if path != "" {
				want[path] = file
			}
		}
		for _, path := range kind.more {
			want[path] = kind.got[path]
		}
		if !maps.Equal(kind.got, want) {
			t.Errorf("%s has %q\nwant %q", kind.name, kind.got, want)
		}
	}
	for _, entries := range []string{command(t, "unsquashfs", "-lls", extension(t, a)), command(t, "tar", "-tvf", layer)} {
		for _, line := range regexp.MustCompile(`(?m)^[-d]r.*`).FindAllString(entries, -1) {
			if !regexp.MustCompile(`^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root/root `).MatchString(line) {
				t.Errorf("%s", line)
			}
		}
	}
	for _, program := range programs {
		opened, err := elf.Open(filepath.Join(shared, "linux-"+a.goarch, program))
		if err != nil {
			t.Fatal(err)
		}
		if opened.Machine != a.machine {
			t.Errorf("%s for %s is for %v", program, a.goarch, opened.Machine)
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, said := range []struct{ of, got, want string }{
		{"architecture of the deb", command(t, "dpkg-deb", "-f", debFile, "Architecture"), a.goarch + "\n"},
		{"architecture of the rpm", command(t, "rpm", "-qp", "--queryformat", "%{ARCH}", rpmFile), a.rpm},
		{"configuration files of the deb", command(t, "dpkg-deb", "-I", debFile, "conffiles"), "/etc/default/node-partition\n"},
		{"configuration files of the rpm", command(t, "rpm", "-qpc", rpmFile), "/etc/sysconfig/node-partition\n"},
		{
			"release of the extension", command(t, "unsquashfs", "-cat", extension(t, a), strings.TrimPrefix(extensionRelease, "/")),
			"ID=_any\nARCHITECTURE=" + a.systemd + "\nEXTENSION_RELOAD_MANAGER=1\n",
		},
		{
			"licences of the rpm", command(t, "rpm", "-qpL", rpmFile),
			"/usr/share/licenses/node-partition/LICENSE\n/usr/share/licenses/node-partition/third-party-licenses\n",
		},
	} {
		if said.got != said.want {
			t.Errorf("%s: %q, want %q", said.of, said.got, said.want)
		}
	}
	if got := command(t, "rpm", "-qp", "--requires", rpmFile); strings.Contains(got, "systemd") {
		t.Errorf("the rpm does not install without systemd: it requires %q", got)
	}
}

// compressed returns the path of an installed file in a package, whose pages are compressed.
func compressed(path string) string {
	if strings.HasPrefix(path, "/usr/share/man/") {
		return path + ".gz"
	}
	return path
}

// inDeb returns the path of an installed file in a deb, or "" for what its copyright names.
func inDeb(path string) string {
	switch filepath.Base(path) {
	case "LICENSE":
		return ""
	case "CHANGELOG.md":
		return filepath.Join(filepath.Dir(path), "changelog.gz")
	case "_partition-monitor":
		return "/usr/share/zsh/vendor-completions/_partition-monitor"
	}
	return compressed(path)
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

// composed returns a script as it is in a package: the functions that all of them share, and its
// own lines.
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

// TestCompletions: each shell loads its completions, and completes a command, an option and a
// value.
func TestCompletions(t *testing.T) {
	t.Parallel()
	const bash = `. ../completions/partition-monitor.bash
for line in 'che' 'check --ig' 'check --output ' 'check --output = j' 'explain swa'; do
	COMP_WORDS=(partition-monitor $line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	[[ $line == *' ' ]] && COMP_WORDS+=('') COMP_CWORD=$((COMP_CWORD + 1))
	_partition_monitor
	echo "${COMPREPLY[*]}"
done`
	if got := command(t, "bash", "-c", bash); got != "check\n--ignore\ntable json yaml\njson\nswap\n" {
		t.Errorf("bash: %q", got)
	}
	// The file is the body of a function, which compinit calls where words are completed.
	const zsh = `_describe() { shift $(($# - 1)); print -rl -- ${(P)1}; }
_files() { echo files; }
compadd() { print -rl -- "$@"; }
body=$(<../completions/_partition-monitor)
functions[complete]=$body
for line in 'che' 'check --ig' 'check x' 'check --output j'; do
	words=(partition-monitor ${=line}) CURRENT=$#words
	complete | grep -c -e ^check: -e ^--ignore: -e '^files$' -e '^table$'
done`
	if got := command(t, "zsh", "-fc", zsh); got != "1\n1\n1\n1\n" {
		t.Errorf("zsh: %q", got)
	}
	const fish = `source ../completions/partition-monitor.fish
complete -C "partition-monitor che"; complete -C "partition-monitor check --ig"; complete -C "partition-monitor check --output ta"`
	if got := command(t, "fish", "--no-config", "-c", fish); !strings.Contains(got, "check\t") || !strings.Contains(got, "--ignore\t") || !strings.Contains(got, "\ntable") {
		t.Errorf("fish: %q", got)
	}
}
