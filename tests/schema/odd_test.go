package schema

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"node-partition.io/node-partition/tests/generator/golden"
)

// onlyTheProgram are the reasons for which the program alone refuses a value: no regular expression
// compares numbers. What the schema refuses, the program refuses in any case.
var onlyTheProgram = []string{
	"is not a whole number of bytes",                // 1.1Ki
	"is beyond 2^63-1 bytes",                        // 8Ei
	"want a unit, and 1 MiB or more",                // 4, 64Ki
	"is not a quantity",                             // more than 40 characters
	"is not below memoryLimit",                      // where it is compared with another field
	"is not above zero and below memoryLimit",       // a percentage that comes to nothing
	"is not a list of CPUs",                         // 3-1
	"names the same CPUs again and again",           // 0-8191,0-8191,...
	"must be above zero; evictionHard evicts at",    // 0.01ns
	"is not a duration",                             // beyond 290 years
	"is not between 0% and 100%; want a quantity",   // 99.99999999%, which is 100% in 32 bits
	"is not between 0% and 100%; want a percentage", // 99.999999999999999999%
}

// field is a field of a section with its odd values.
type field struct {
	// document has %s for the value.
	document string
	// letters lists the characters of random values.
	letters string
	// quote means that the value is a string.
	quote  bool
	values []string
}

func oddFields() map[string]field {
	const (
		amounts = "000125.+-%eEKMGiTPmnuk "
		system  = golden.KubeletHead + "systemPartition: {namespaces: [a], "
		// With the largest limit, no amount is compared with it.
		largest = system + "memoryLimit: '9223372036854775807', "
	)
	quantities := []string{
		"", "0", "1", "+1", "-1", "-0", "00", "0.0", "1.", ".5", ".", "1.0", "1.5", "1.5Ki", "1.1Ki", "0.5Ki", "1e3", "1E3", "1e+3", "5000e-3", "5e-3",
		"1e", "1E", "1e99", "1e100", "0e5", "1Ki", "1ki", "1K", "1k", "1Mi", "1mi", "1m", "1000m", "1u", "1n", "1000000000n", "4GB", "4 Gi", " 4Gi", "4Gi ", "4Gi\t",
		"1Ei", "7Ei", "8Ei", "9223372036854775807", "9223372036854775808", "0x10", "1_000", "m", "e5", "-.", "٣Gi", strings.Repeat("1", 41), "1i", "Gi", "+", "1+1", "1Zi", "1Y",
	}
	percentages := []string{
		"0%", "100%", "00%", "0.0%", "100.0%", "101%", "1%", "01%", "99%", "099%", "99.9%", "99.999%", "99.99999999999999999999%", "12.5%", ".5%", "5.%", ".%", "%",
		"+5%", "-5%", "5 %", " 5%", "5%%", "5%5", "1e1%", "1E1%", "0x1p3%", "1_0%", "NaN%", "Inf%", "inf%", "infinity%", "٣%", "0.0000000000001%", "%5", "1Gi%",
	}
	both := slices.Concat(quantities, percentages)
	labels := []string{
		"a", "A", "a-b", "a_b", "a.b", "-a", "a-", "", "1", "1a", "kube-system", strings.Repeat("a", 40), strings.Repeat("a", 41), strings.Repeat("a", 63),
		strings.Repeat("a", 64), "pod", "podman", "tripod", "a-pod-b", "po-d", "p0d", "pods", "system", "default", "burstable", "besteffort", "besteffort-x", "ä", "a\n",
	}
	return map[string]field{
		"memoryLimit":            {system + "memoryLimit: %s}", amounts, true, both},
		"memoryLimit, bare":      {system + "memoryLimit: %s}", "0125.-e", false, []string{"0", "1", "-1", "1.5", "1e3", "1e30", "0x10", "0o17", "true", "[]", "{}", "~"}},
		"memoryLimitMin":         {system + "memoryLimit: 50%%, memoryLimitMin: %s}", amounts, true, both},
		"memoryLimitMax":         {system + "memoryLimit: 50%%, memoryLimitMax: %s}", amounts, true, both},
		"memoryHigh":             {largest + "memoryHigh: %s}", amounts, true, both},
		"evictionHard":           {largest + "evictionHard: {memory.available: %s}}", amounts, true, both},
		"evictionHard, bare":     {largest + "evictionHard: {memory.available: %s}}", "0125.-e", false, []string{"0", "5", "5.5", "true", "[]", "~"}},
		"evictionSoft":           {largest + "evictionSoftGracePeriod: {memory.available: 9s}, evictionSoft: {memory.available: %s}}", amounts, true, both},
		"evictionMinimumReclaim": {largest + "evictionMinimumReclaim: {memory.available: %s}}", amounts, true, both},
		"reclaim, bare":          {largest + "evictionMinimumReclaim: {memory.available: %s}}", "0125.-e", false, []string{"0", "-0", "5", "-5", "5.5", "~"}},
		"evictionSoftGracePeriod": {
			largest + "evictionSoft: {memory.available: 9%%}, evictionSoftGracePeriod: {memory.available: %s}}", "0019.+-hmsnuµ ", true,
			[]string{"", "0", "0s", "1s", "+1s", "-1s", "1", "1m30s", "1.5h", ".5h", "5.h", ".h", "1µs", "1μs", "1us", "0.1ns", "1d", "1s ", "0h0m1s", "0h0m0s", "9999999h", "s", "+"},
		},
		"evictionMaxPodGracePeriod": {
			system + "memoryLimit: 1Gi, evictionMaxPodGracePeriod: %s}", "0125.-e", false,
			[]string{"0", "-1", "1", "2147483647", "2147483648", "1.5", "1.0", "1e2", "'5'", "~", "true"},
		},
		"cpuset": {
			system + "cpuset: %s}", "00129-, +", true,
			[]string{
				"", "0", "00", "0-3", "0-3,8", "3-1", "1-1", "0,0", "0-", "-0", "-", ",", "0,", ",0", "0--1", "0-1-2", " 0", "0 ", "0, 1", "+0", "0x1", "8191", "8192", "08191",
				"7999", "8000", "8190", "9000", "99999999999999999999999", strings.Repeat("0-8191,", 9) + "0", "all", "٣", "0\n",
			},
		},
		"cpuset, bare":  {system + "cpuset: %s}", "0129-,", false, []string{"0", "0-3", "8", "1.5", "[0]", "~", "true"}},
		"exclusive":     {system + "cpuset: '0', exclusive: %s}", "", false, []string{"true", "false", "yes", "no", "on", "'true'", "1", "0", "~", "[]", "True", "y"}},
		"namespaces":    {golden.KubeletHead + "systemPartition: {namespaces: [x, %s]}", "aA0-_.x", true, labels},
		"a list":        {golden.KubeletHead + "systemPartition: {namespaces: %s}", "", false, []string{"[]", "[a]", "[a, a]", "[~]", "~", "a", "{a: b}", "[1]", "[[a]]", "[true]"}},
		"allowed":       {golden.KubeletHead + "workloadPartitions: {t: {allowedNamespaces: %s}}", "", false, []string{"[]", "[a]", "[a, a]", "[~]", "~", "a"}},
		"a type":        {golden.KubeletHead + "workloadPartitions: {%s: {}}", "podsa0-_A", true, labels},
		"a type's null": {golden.KubeletHead + "workloadPartitions: {%s: ~}", "podsa0-_A", true, labels},
		"of a type":     {golden.KubeletHead + "workloadPartitions: {t: %s}", "", false, []string{"{}", "~", "[]", "a", "1", "false", "{advertise: ~}", "{partition: ~}", "{partition: ''}", "{partition: other}", "{advertise: 1}", "{namespaces: ~}", "{stray: ~}", "{stray: 1}"}},
		"the section": {golden.KubeletHead + "systemPartition: %s", "", false, []string{
			"{}", "~", "[]", "a", "{namespaces: ~}", "{namespaces: ~, memoryLimit: ~}", "{namespaces: ~, memoryLimit: 1Gi}", "{memoryLimit: ~}", "{namespaces: [a], evictionHard: ~}",
			"{namespaces: [a], evictionHard: {memory.available: ~}}", "{namespaces: [a], memoryLimit: 1Gi, evictionHard: {other: ~}}", "{namespaces: [a], memoryLimitMin: ~}",
			"{namespaces: [a], memoryLimit: 1Gi, memoryLimitMin: ~, memoryLimitMax: ~}", "{namespaces: [a], memoryLimit: ~, memoryLimitMin: 1Gi}",
			"{namespaces: [a], cpuset: ~, exclusive: ~, memoryHigh: ~, evictionMaxPodGracePeriod: ~}", "{stray: ~}", "{namespaces: [a], advertise: ~}",
		}},
		"all types": {golden.KubeletHead + "workloadPartitions: %s", "", false, []string{"{}", "~", "[]", "a", "1"}},
		"the document": {golden.KubeletHead + "%s", "", false, []string{
			"", "maxPods: 5\nsystemPartition: {namespaces: [a]}", "systemPartition: {namespaces: [a], memoryLimits: 4Gi}",
			"systemPartition: {namespaces: [a], memoryLimit: 4Gi, memoryLimitMin: 1Gi}", "systemPartition: {namespaces: [a], memoryLimit: many%}",
			"systemPartition: {namespaces: [a], memoryLimit: 10%, memoryLimitMax: 20%}", "systemPartition: {namespaces: [a], cpuset: 0-}",
			"systemPartition: {namespaces: [a], memoryLimit: 1Gi, evictionHard: {nodefs.available: 1Gi}}",
			"workloadPartitions: {a: {partition: other}}",
		}},
		"kind":       {"apiVersion: kubelet.config.k8s.io/v1beta1\nsystemPartition: {}\nkind: %s", "", false, []string{"KubeletConfiguration", "Pod", "~", "1", "''"}},
		"apiVersion": {"kind: KubeletConfiguration\nsystemPartition: {}\napiVersion: %s", "", false, []string{"kubelet.config.k8s.io/v1beta1", "v1", "~", "1.0"}},
	}
}

// TestOdd: the schema and the program agree on odd values, from a table and random ones. The
// schema refuses nothing that the program takes, and takes what the program refuses only for the
// reasons of onlyTheProgram.
func TestOdd(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	taken, refused := 0, 0
	for name, f := range oddFields() {
		values := slices.Clone(f.values)
		letters := []rune(f.letters)
		for range 150 * min(len(letters), 1) {
			value := make([]rune, 1+random.IntN(7))
			for i := range value {
				value[i] = letters[random.IntN(len(letters))]
			}
			values = append(values, string(value))
		}
		for _, value := range values {
			if f.quote {
				value = fmt.Sprintf("%q", value)
			}
			document := fmt.Sprintf(f.document, value) + "\n"
			if !isYAML(document) {
				continue
			}
			refusedBySchema := accepts(t, document)
			warnings, err := judged(document)
			unknown := slices.ContainsFunc(warnings, func(w string) bool {
				return strings.Contains(w, "unknown field") || strings.Contains(w, "belongs in the kubelet's own configuration")
			})
			switch {
			case len(refusedBySchema) == 0 && err == nil && !unknown:
				taken++
			case len(refusedBySchema) > 0 && (err != nil || unknown):
				refused++
			case len(refusedBySchema) > 0:
				t.Errorf("%s: %s: the program takes it, and the schema refuses it: %v", name, value, refusedBySchema)
			case !slices.ContainsFunc(onlyTheProgram, func(reason string) bool { return err != nil && strings.Contains(err.Error(), reason) }):
				t.Errorf("%s: %s: the schema takes it, and the program refuses it: %v, %q", name, value, err, warnings)
			}
		}
	}
	if taken < 200 || refused < 200 {
		t.Errorf("%d values are taken, and %d refused: too few to show anything", taken, refused)
	}
}
