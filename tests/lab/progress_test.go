package lab

import "testing"

func TestReadStep(t *testing.T) {
	for line, want := range map[string]struct {
		name string
		over bool
	}{
		"unpacking qemu ...":                                               {name: "unpacking qemu"},
		"unpacking qemu: 37.8 s":                                           {name: "unpacking qemu", over: true},
		"containerd-1.7: making the disk ...":                              {name: "containerd-1.7: making the disk"},
		"containerd-1.7: copying /var: 1234.5 s":                           {name: "containerd-1.7: copying /var", over: true},
		"KVM does not work here: not started in 5.0 s: nodes are emulated": {},
		"demo is ready: lab ssh demo":                                      {},
		"":                                                                 {},
	} {
		if name, over := ReadStep(line); name != want.name || over != want.over {
			t.Errorf("%q: %q, %v; want %+v", line, name, over, want)
		}
	}
}

// TestStepsAreRead: what BeginStep reports is read again.
func TestStepsAreRead(t *testing.T) {
	var lines []string
	BeginStep(func(line string) { lines = append(lines, line) }, "trying KVM")()
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		if name, over := ReadStep(line); name != "trying KVM" || over != (i == 1) {
			t.Errorf("%q: %q, %v", line, name, over)
		}
	}
}
