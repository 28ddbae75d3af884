package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodepartition/internal/hostfs"
	"nodepartition/internal/installer/outcome"
	"nodepartition/internal/installer/store"
)

// placesIn returns places in a folder that is root and image, without a bus.
func placesIn(dir string) places {
	return places{
		root: hostfs.FS(dir), image: hostfs.FS(dir), termination: filepath.Join(dir, "termination"),
		confined: filepath.Join(dir, "none"), bus: "unix:path=" + filepath.Join(dir, "no-bus"), patience: 1,
	}
}

// TestUsage: wrong options are status 2, and what is wrong is in the termination message.
func TestUsage(t *testing.T) {
	t.Parallel()
	const options = " --node=n --roll=r --version=unknown --section=/s"
	for line, want := range map[string]string{
		"": "want one of the stages", "bogus": "want one of the stages", "install": "--roll", "install --bogus": "an unknown option",
		"install" + options + " more": "no argument", "install" + options + " --trial=1s": "--trial",
		"install" + options + " --nri=docker":       "--nri: want none or one of",
		"install" + options + " --monitor-args=a$b": "--monitor-args",
		"host apply": "want host STAGE ROLL", "back --later": "want host STAGE ROLL",
	} {
		dir := t.TempDir()
		at := placesIn(dir)
		var stderr bytes.Buffer
		if status := run(t.Context(), strings.Fields(line), at, os.Stdout, &stderr); status != outcome.Usage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: %d, %q; want %q", line, status, stderr.String(), want)
		}
	}
}

// TestNoValueIsRepeated: a value that is refused may be of a Secret that the environment of a Job
// has. Neither the log nor the termination message repeats it.
func TestNoValueIsRepeated(t *testing.T) {
	t.Parallel()
	const secret, options = `{"auths":{"r":"c2VjcmV0"}}`, " --node=n --roll=r --version=unknown --section=/s"
	for _, line := range []string{
		"SECRET", "preflight --roll=SECRET", "preflight" + options + " --trial=SECRET", "preflight" + options + " --nri=SECRET",
		"preflight" + options + " --monitor-args=$SECRET", "preflight" + options + " SECRET", "preflight" + options + " --SECRET=1",
		"preflight" + options + " --SECRET", "preflight" + options + " --=SECRET", "preflight --node=n --roll=r --version=unknown --section=/SECRET",
	} {
		at := placesIn(t.TempDir())
		if err := os.WriteFile(at.termination, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(strings.ReplaceAll(line, "SECRET", secret)), at, os.Stdout, &stderr)
		message, err := os.ReadFile(at.termination)
		if status == outcome.Done || err != nil || strings.Contains(stderr.String()+string(message), "c2VjcmV0") {
			t.Errorf("%q: %d, %v\n%s\n%s", line, status, err, &stderr, message)
		}
	}
}

// TestHelp: help and version go to standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	for _, arg := range []string{"--help", "--version"} {
		if status := run(t.Context(), []string{arg}, places{}, &stdout, &stdout); status != outcome.Done {
			t.Errorf("%s: %d", arg, status)
		}
	}
	for _, want := range []string{"--section=FILE", "partition-installer unknown"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in %s", want, stdout.String())
		}
	}
}

// TestNoBus: without the host's bus a preflight is refused, and says so in the termination message.
// As another user than root it does not try. It writes nothing to the host.
func TestNoBus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"state", "payload"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	section := filepath.Join(dir, "section")
	if err := os.WriteFile(section, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]string{0: "no-bus: the host's systemd does not answer", 65532: "no-bus: this container runs as UID 65532, "} {
		at := placesIn(dir)
		at.uid = uid
		if uid != 0 {
			at.patience = time.Hour // it does not come to that
		}
		status := run(t.Context(), []string{
			"preflight", "--node=n", "--roll=r", "--version=unknown", "--section=" + section, "--state=" + filepath.Join(dir, "state"),
		}, at, os.Stdout, &bytes.Buffer{})
		message, err := os.ReadFile(at.termination)
		if status != outcome.Refused || err != nil || !strings.HasPrefix(string(message), want) {
			t.Errorf("UID %d: %d, %q, %v; want %q", uid, status, message, err, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "state")); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestHostWithoutRequest: a stage that no pod has asked for is refused.
func TestHostWithoutRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, store.Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	at := placesIn(dir)
	if status := run(t.Context(), []string{"host", "apply", "r1"}, at, os.Stdout, &bytes.Buffer{}); status != outcome.Refused {
		t.Errorf("%d", status)
	}
	if _, err := os.Stat(filepath.Join(dir, store.Folder, store.Result("apply", "r1"))); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"same", "back"} {
		want := outcome.Done
		if line == "same" {
			want = outcome.Refused
		}
		if status := run(t.Context(), []string{line}, at, os.Stdout, &bytes.Buffer{}); status != want {
			t.Errorf("%s: %d", line, status)
		}
	}
}

func TestIsVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asked, built string
		want         bool
	}{
		{"v0.1.0", "v0.1.0", true}, {"0.1.0", "v0.1.0", true}, {"v0.1.0", "v0.2.0", false}, {"v0.1.0", "unknown", true},
	} {
		if got := isVersion(test.asked, test.built); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

func TestConfined(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"system_u:system_r:container_t:s0:c1,c2\x00": true, "cri-containerd.apparmor.d (enforce)\n": false, "unconfined\n": false, "": false,
	} {
		path := filepath.Join(t.TempDir(), "current")
		if err := os.WriteFile(path, []byte(label), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := confined(path); got != want {
			t.Errorf("%q: %t", label, got)
		}
	}
}
