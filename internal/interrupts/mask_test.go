package interrupts

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

// TestParseMask: masks of the kernel, of irqbalance's file and of CRI-O are read, and Mask writes
// what it can read.
func TestParseMask(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mask, want, err string }{
		{"f", "0-3", ""},
		{"0000000F", "0-3", ""},
		{"00000000,0000000c", "2-3", ""},
		{"1,00000000", "32", ""},
		{"0", "", ""},
		{"0000000000000001", "0", ""},
		{"80000000," + strings.Repeat("00000000,", 254) + "00000001", "0,8191", ""},
		{"", "", "is not a mask"},
		{"f,", "", "is not a mask"},
		{"x", "", "is not a mask"},
		{"0x1", "", "is not a mask"},
		{"-1", "", "is not a mask"},
		{"100000000", "", "is not a mask"},
		{"1_0", "", "is not a mask"},
		{" 1", "", "is not a mask"},
		{strings.Repeat("1,", 256) + "1", "", "more than 8192 CPUs"},
	} {
		got, err := ParseMask(test.mask)
		if got.String() != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("ParseMask(%q): %v, %v; want %q, %q", test.mask, got, err, test.want, test.err)
		}
		if again, againErr := ParseMask(formatMask(got)); err == nil && (againErr != nil || !again.Equals(got)) {
			t.Errorf("%q: Mask is %q, and that is %v, %v", test.mask, formatMask(got), again, againErr)
		}
	}
}

// TestWithout: a mask keeps its form.
func TestWithout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mask, cpus, want string }{
		{"f", "2-3", "3"},
		{"f", "0", "e"},
		{"ff,ffffffff", "0,33,39", "7d,fffffffe"},
		{"00000000,0000000f", "3", "00000000,00000007"},
		{"3,1", "32", "2,1"},
		{"3,000000001", "33", "1,000000001"},
		{"f", "9", "f"},
	} {
		cpus, err := cpuset.Parse(test.cpus)
		if got := without(test.mask, cpus); err != nil || got != test.want {
			t.Errorf("%s without %s: %s, %v; want %s", test.mask, test.cpus, got, err, test.want)
		}
	}
}

// FuzzMask: what is read has the same CPUs when it is written again.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{"f", "00000000,0000000c", "1,00000000", "", ",", "0x1", "ffffffff,ffffffff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseMask(text)
		if err != nil {
			return
		}
		again, err := ParseMask(formatMask(cpus))
		if err != nil || !again.Equals(cpus) {
			t.Errorf("%q: %s is written as %q, which is %s, %v", text, cpus, formatMask(cpus), again, err)
		}
		if none, err := ParseMask(without(text, cpus)); err != nil || !none.IsEmpty() {
			t.Errorf("%q without %s: %s, %v", text, cpus, none, err)
		}
	})
}
