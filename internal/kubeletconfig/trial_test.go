package kubeletconfig

import (
	"slices"
	"strings"
	"testing"
)

// TestLoadTrial: a section on trial replaces those of the override and of the kubelet, and Looked
// lists them.
func TestLoadTrial(t *testing.T) {
	t.Parallel()
	const main = "/var/lib/kubelet/config.yaml"
	section := func(cpus string) string { return head + "systemPartition: {cpuset: '" + cpus + "'}" }
	root := tree(t, map[string]string{main: section("0"), OverridePath: section("1"), TrialPath: section("2")})
	c, err := Load(root)
	if err != nil || string(c.System.JSON) != `{"cpuset":"2"}` || c.System.File != TrialPath {
		t.Fatalf("%s of %q, %v; want the trial's", c.System.JSON, c.System.File, err)
	}
	if got := c.SectionFileWith("systemPartition.cpuset"); got != TrialPath {
		t.Errorf("a message about its cpuset names %s", got)
	}
	for _, want := range []Look{{main, lookRead}, {OverridePath, "not read, " + TrialPath + " exists: a trial runs"}, {TrialPath, lookRead}} {
		if !slices.Contains(c.Looked, want) {
			t.Errorf("%v; want %v", c.Looked, want)
		}
	}
	if !c.OnTrial() {
		t.Error("no section is on trial")
	}
	// A candidate replaces all of them, and is read from no file.
	c, err = LoadWith(root, &Candidate{"mine.yaml", []byte(section("3"))})
	if err != nil || string(c.System.JSON) != `{"cpuset":"3"}` || c.System.File != "mine.yaml" || c.SectionFileWith("systemPartition.cpuset") != "mine.yaml" {
		t.Errorf("%s of %q, %v; want mine.yaml's", c.System.JSON, c.System.File, err)
	}
}

// TestTrialBroken: a trial that cannot be read is an error that names it. The override is no
// substitute: its section would come into force in the middle of a trial.
func TestTrialBroken(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"systemPartition: {": TrialPath, "apiVersion: v1\nkind: Pod\n": TrialPath, "": TrialPath, "a folder": TrialPath + "/file",
	} {
		root := tree(t, map[string]string{
			"/var/lib/kubelet/config.yaml": head, OverridePath: head + "systemPartition: {cpuset: '1'}", path: name,
		})
		c, err := Load(root)
		if err == nil || !strings.Contains(err.Error(), TrialPath) || len(c.System.JSON) > 0 {
			t.Errorf("%q: section %s, %v; want no section, and an error of %s", name, c.System.JSON, err, TrialPath)
		}
	}
}
