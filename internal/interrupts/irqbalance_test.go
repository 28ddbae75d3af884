package interrupts

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"nodepartition/internal/hostfs"
)

// TestNewBans: irqbalance leaves out what it would leave out by itself, and the CPUs to keep
// interrupts off. A list or a mask in its environment replaces the CPUs that it finds by itself.
func TestNewBans(t *testing.T) {
	t.Parallel()
	type environment map[string]string
	for name, test := range map[string]struct {
		env            environment
		isolated, nohz string
		keep           cpuset.CPUSet
		without, with  string
		text           []string // the variables
	}{
		"nothing else":       {nil, "", "", cpuset.New(2, 3), "", "2-3", []string{"IRQBALANCE_BANNED_CPULIST=2-3"}},
		"empty variables":    {environment{"IRQBALANCE_BANNED_CPUS": "", "IRQBALANCE_BANNED_CPULIST": ""}, "1", "", cpuset.New(2), "1", "1-2", []string{"IRQBALANCE_BANNED_CPULIST=1-2"}},
		"isolated":           {nil, "1\n", "2\n", cpuset.New(3), "1-2", "1-3", []string{"IRQBALANCE_BANNED_CPULIST=1-3"}},
		"no nohz_full":       {nil, "\n", " (null)\n", cpuset.New(3), "", "3", []string{"IRQBALANCE_BANNED_CPULIST=3"}},
		"an operator's":      {environment{"IRQBALANCE_BANNED_CPULIST": "0"}, "1", "2", cpuset.New(3), "0", "0,3", []string{"IRQBALANCE_BANNED_CPULIST=0,3"}},
		"none, by OpenShift": {environment{"IRQBALANCE_BANNED_CPULIST": "-"}, "1", "2", cpuset.New(3), "", "3", []string{"IRQBALANCE_BANNED_CPULIST=3"}},
		"CRI-O's mask": {
			environment{"IRQBALANCE_BANNED_CPUS": "00000002"}, "0", "", cpuset.New(3), "1", "1,3",
			[]string{"IRQBALANCE_BANNED_CPULIST=1,3", "IRQBALANCE_BANNED_CPUS=0000000a"},
		},
		"both": {
			environment{"IRQBALANCE_BANNED_CPUS": "1", "IRQBALANCE_BANNED_CPULIST": "1"}, "", "", cpuset.New(3), "0", "0,3",
			[]string{"IRQBALANCE_BANNED_CPULIST=0,3", "IRQBALANCE_BANNED_CPUS=00000009"},
		},
		"left out already":   {environment{"IRQBALANCE_BANNED_CPULIST": "2-3"}, "", "", cpuset.New(3), "2-3", "2-3", nil},
		"no CPU left":        {environment{"IRQBALANCE_BANNED_CPULIST": "0-1"}, "", "", cpuset.New(2, 3), "0-1", "0-1", nil},
		"no online CPU left": {environment{"IRQBALANCE_BANNED_CPUS": "13"}, "", "", cpuset.New(2, 3), "0-1,4", "0-1,4", nil},
	} {
		n := newNode(t)
		if test.isolated != "" {
			n.write(isolatedPath, test.isolated)
		}
		if test.nohz != "" {
			n.write(nohzFullPath, test.nohz)
		}
		root := hostfs.FS(n.root)
		bans, err := NewBans(root, func(key string) string { return test.env[key] }, test.keep, online)
		if err == nil {
			err = bans.Write(n.root)
		}
		if err != nil || bans.Without.String() != test.without || bans.CPUs.String() != test.with {
			t.Errorf("%s: without %s, with %s, %v; want %s, %s", name, bans.Without, bans.CPUs, err, test.without, test.with)
		}
		if !bans.Suit(test.keep, online) || bans.Change() != (len(test.text) > 0) {
			t.Errorf("%s: suits %t, changes %t", name, bans.Suit(test.keep, online), bans.Change())
		}
		var variables []string
		for line := range strings.Lines(n.read(BansFile)) {
			if !strings.HasPrefix(line, "#") {
				variables = append(variables, strings.TrimSpace(line))
			}
		}
		if strings.Join(variables, " ") != strings.Join(test.text, " ") {
			t.Errorf("%s: %q, want %q", name, variables, test.text)
		}
		again, err := ReadBans(root)
		if err != nil || again == nil || !again.Without.Equals(bans.Without) || !again.CPUs.Equals(bans.CPUs) {
			t.Errorf("%s: read again: %+v, %v; want %+v", name, again, err, bans)
		}
		if test.text != nil {
			// What irqbalance makes of its environment and the file after it.
			got, _ := Banned(func(key string) string {
				for _, line := range variables {
					if value, ok := strings.CutPrefix(line, key+"="); ok {
						return value
					}
				}
				return test.env[key]
			})
			if !got.Equals(bans.CPUs) {
				t.Errorf("%s: irqbalance leaves out %s, want %s", name, got, bans.CPUs)
			}
		}
	}
}

// TestBansSuit: irqbalance is restarted when the list is another one, and not otherwise.
func TestBansSuit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		without, with, keep cpuset.CPUSet
		suits               bool
	}{
		{none, cpuset.New(2, 3), cpuset.New(2, 3), true},
		{none, cpuset.New(2, 3), cpuset.New(3), false},
		{none, cpuset.New(3), cpuset.New(2, 3), false},
		{cpuset.New(0), cpuset.New(0, 3), cpuset.New(3), true},
		{cpuset.New(2), cpuset.New(2, 3), cpuset.New(2, 3), true},
		{cpuset.New(0, 1), cpuset.New(0, 1), cpuset.New(2, 3), true},
		{cpuset.New(0, 1), cpuset.New(0, 1), cpuset.New(3), false},
	} {
		bans := Bans{Without: test.without, CPUs: test.with}
		if bans.Suit(test.keep, online) != test.suits {
			t.Errorf("%s, %s without: suits %s: %t, want %t", test.with, test.without, test.keep, !test.suits, test.suits)
		}
	}
}

// TestReadBans: without the file irqbalance was started without it, and a broken one is named.
func TestReadBans(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	root := hostfs.FS(n.root)
	if bans, err := ReadBans(root); bans != nil || err != nil || Left(root) {
		t.Errorf("%+v, %v; want none", bans, err)
	}
	n.write(BansFile, "IRQBALANCE_BANNED_CPULIST=all\n")
	if bans, err := ReadBans(root); bans != nil || err == nil || !strings.Contains(err.Error(), BansFile) || !Left(root) {
		t.Errorf("%+v, %v; want the file named", bans, err)
	}
	for range 2 {
		if err := RemoveBans(n.root); err != nil || Left(root) {
			t.Errorf("%v; want it gone", err)
		}
	}
	n.write(isolatedPath, "all\n")
	if _, err := NewBans(root, func(string) string { return "" }, cpuset.New(3), online); err == nil || !strings.Contains(err.Error(), isolatedPath) {
		t.Errorf("%v; want the file named", err)
	}
}
