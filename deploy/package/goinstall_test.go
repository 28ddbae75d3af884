package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstall: a proxy has the module as a release, and go install makes the programs of it. It
// refuses a go.mod with a replacement, and a zip leaves out the modules below. The cache of modules
// is one of its own, in which no other commit is the release.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	const name, version = "node-partition.io/node-partition", "v0.1.0-rc.1"
	bin, proxy := t.TempDir(), t.TempDir()
	dir := filepath.Join(proxy, name, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	info := `{"Version":"` + version + `","Time":"` + time.Unix(0, 0).UTC().Format(time.RFC3339) + `"}`
	for file, text := range map[string]string{"list": version + "\n", version + ".info": info, version + ".mod": string(mod)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	tree := t.TempDir()
	command(t, "sh", "-ec", `git -C ../.. -c safe.directory='*' archive HEAD | tar -C "$0" -x`, tree)
	if err := zip.CreateFromDir(archive, module.Version{Path: name, Version: version}, tree); err != nil {
		t.Fatal(err)
	}
	downloaded := strings.TrimSpace(command(t, "go", "env", "GOMODCACHE")) + "/cache/download"
	upstream := strings.TrimSpace(command(t, "go", "env", "GOPROXY"))
	cache := t.TempDir()
	for _, program := range []string{"partition-generator", "partition-monitor"} {
		install := exec.Command("go", "install", name+"/cmd/"+program+"@"+version)
		install.Dir = t.TempDir()
		install.Env = append(
			os.Environ(), "GOBIN="+bin, "GOMODCACHE="+cache, "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
			"GOPROXY=file://"+proxy+",file://"+downloaded+","+upstream, "GOSUMDB=off",
		)
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", install, err, out)
		}
		if got := command(t, filepath.Join(bin, program), "--version"); got != program+" "+version+"\n" {
			t.Errorf("%s --version prints %q", program, got)
		}
	}
}
