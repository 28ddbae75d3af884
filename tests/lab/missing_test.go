package lab

import (
	"os"
	"slices"
	"testing"
)

func TestMissing(t *testing.T) {
	f, err := FlavourByName("containerd-1.7")
	if err != nil {
		t.Fatal(err)
	}
	c := cache{Dir: t.TempDir()}
	sources, err := sourcesDir()
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.entriesOf(f, sources)
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{
		"unpacking qemu", "installing Debian trixie", "building pause 1", "building podtool 1",
		"building kubelet-1.37 v1.37.0",
	}
	image := []Step{
		{"containerd-1.7: making the disk", parts},
		{"containerd-1.7: importing the container images in a first boot", []string{"containerd-1.7: making the disk"}},
		{"containerd-1.7: copying /var", []string{"containerd-1.7: importing the container images in a first boot"}},
	}
	for _, test := range []struct {
		title string
		make  []string
		want  []Step
	}{
		{"all", nil, append([]Step{
			{"unpacking qemu", nil},
			{"installing Debian trixie", nil},
			{"building pause 1", nil},
			{"building podtool 1", []string{"building pause 1"}},
			{"building kubelet-1.37 v1.37.0", nil},
		}, image...)},
		{"all but parts of the image", append([]string{made.debian}, made.programs...), append([]Step{{"unpacking qemu", nil}}, image...)},
		{"the emulator", []string{made.image}, []Step{{"unpacking qemu", nil}}},
	} {
		for _, entry := range test.make {
			if err := os.MkdirAll(entry, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, err := c.missing(f)
		if err != nil || !slices.EqualFunc(got, test.want, func(a, b Step) bool {
			return a.Name == b.Name && slices.Equal(a.After, b.After)
		}) {
			t.Errorf("%s: %q, %v; want %q", test.title, got, err, test.want)
		}
	}
	if _, err := Missing("buster"); err == nil {
		t.Error("no error for a flavour that is not known")
	}
}

// TestMissingOfAnotherArchitecture: its Debian is unpacked first and then installed by an emulated
// machine.
func TestMissingOfAnotherArchitecture(t *testing.T) {
	f, err := FlavourByName("arm64")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := cache{Dir: t.TempDir()}.missing(f)
	if err != nil {
		t.Fatal(err)
	}
	const unpacking = "unpacking Debian trixie for arm64"
	names := make([]string, 0, len(steps))
	for _, s := range steps {
		names = append(names, s.Name)
		after := map[string]string{
			unpacking: "unpacking qemu-arm64", "installing Debian trixie for arm64 in an emulated machine": unpacking,
		}[s.Name]
		if after != "" && !slices.Equal(s.After, []string{after}) {
			t.Errorf("%s: after %q, want %q", s.Name, s.After, after)
		}
	}
	want := []string{
		"unpacking qemu-arm64", unpacking, "installing Debian trixie for arm64 in an emulated machine",
		"building pause-arm64 1", "building podtool-arm64 1", "building kubelet-1.37-arm64 v1.37.0",
		"arm64: making the disk", "arm64: importing the container images in a first boot", "arm64: copying /var",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestMissingOrderOfPrograms: programs of Kubernetes are made one after the other, and all
// other programs beside them.
func TestMissingOrderOfPrograms(t *testing.T) {
	f, err := FlavourByName("trixie")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := cache{Dir: t.TempDir()}.missing(f)
	if err != nil {
		t.Fatal(err)
	}
	after := map[string][]string{}
	for _, s := range steps {
		after[s.Name] = s.After
	}
	for name, want := range map[string][]string{
		"building kubelet-1.37 v1.37.0":  nil,
		"building containerd-2.3 v2.3.7": {"building podtool 1"},
		"building runc-1.2 v1.2.9":       {"building containerd-2.3 v2.3.7"},
	} {
		if got, ok := after[name]; !ok || !slices.Equal(got, want) {
			t.Errorf("%s: after %q, %v; want %q", name, got, ok, want)
		}
	}
}
