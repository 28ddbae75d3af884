package plan

import "testing"

// FuzzCapacity: an accepted capacity has CPUs from 0 on, and whole bytes of memory.
func FuzzCapacity(f *testing.F) {
	for _, seed := range []string{
		"cpu=16,memory=32Gi,storage=100Gi", "cpu=1,memory=1Gi,hugepages-2Mi=4Mi", "cpu=8193,memory=1", "cpu=0.5,memory=1m", "memory=1,memory=2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCapacity(text)
		if err != nil {
			return
		}
		memory, cpu := c.Resources.Memory(), c.Resources.Cpu()
		if memory.Sign() <= 0 || memory.CmpInt64(memory.Value()) != 0 || int64(c.CPUs.Size()) != cpu.Value() || !c.CPUs.Contains(0) {
			t.Errorf("%q: %s of memory, %s CPUs, %s", text, memory, cpu, c.CPUs)
		}
	})
}
