package plan

import (
	"strings"
	"testing"
)

func TestParseCapacity(t *testing.T) {
	t.Parallel()
	c, err := ParseCapacity("cpu=16, memory=32Gi,storage=100Gi,hugepages-2Mi=1Gi")
	if err != nil {
		t.Fatal(err)
	}
	list := c.Resources
	pages := list["hugepages-2Mi"]
	if c.CPUs.String() != "0-15" || list.Cpu().MilliValue() != 16000 || list.Memory().Value() != 32<<30 ||
		list.StorageEphemeral().Value() != 100<<30 || pages.Value() != 1<<30 {
		t.Errorf("%+v, CPUs %s", list, c.CPUs)
	}
	if c, err := ParseCapacity("memory=1G,cpu=1"); err != nil || c.CPUs.String() != "0" || len(c.Resources) != 2 {
		t.Errorf("%+v, %v; want no storage", c, err)
	}
	// A fraction of a unit may be whole bytes.
	if c, err := ParseCapacity("cpu=1,memory=1.5Gi"); err != nil || c.Resources.Memory().Value() != 3<<29 {
		t.Errorf("%+v, %v; want 1.5Gi", c, err)
	}
	for text, want := range map[string]string{
		"":                                   `"": want cpu, memory, storage or hugepages-SIZE`,
		"cpu=4":                              "memory is missing",
		"memory=4Gi":                         "cpu is missing",
		"cpu=1500m,memory=4Gi":               "cpu: 1500m: want a whole number",
		"cpu=8193,memory=4Gi":                "cpu: 8193: want a whole number of CPUs, 1 to 8192",
		"cpu=4,memory=4Gi,gpu=1":             `"gpu": want cpu`,
		"cpu=4,memory=4Gi,cpu=5":             "cpu is there twice",
		"cpu=4,memory":                       `memory: "" is not a quantity`,
		"cpu=4,memory=-1Gi":                  `memory: "-1Gi" is negative or too large`,
		"cpu=4,memory=16":                    `memory: "16" is 16 bytes; want a unit, and 1 MiB or more; is 16Gi meant?`,
		"cpu=4,memory=1.5":                   `memory: "1.5" is a part of a byte`,
		"cpu=4,memory=1Gi,storage=100m":      `ephemeral-storage: "100m" is a part of a byte`,
		"cpu=4,memory=4Gi,hugepages-foo=1Gi": `"hugepages-foo": want cpu, memory, storage or hugepages-SIZE`,
		"cpu=4,memory=4Gi,hugepages-=1Gi":    `"hugepages-": want cpu`,
		"cpu=4,memory=4Gi,hugepages-0=1Gi":   `"hugepages-0": want cpu`,
		"cpu=4,memory=2e18":                  `memory: "2e18" is negative or too large`,
		"cpu=4,memory=1e999999999":           `memory: "1e999999999" is not a quantity`,
	} {
		if _, err := ParseCapacity(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}
