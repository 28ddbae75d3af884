package cri

import "testing"

// FuzzVerbose: from whatever a runtime says for people, the process is one that can exist, and what
// is not JSON is an error.
func FuzzVerbose(f *testing.F) {
	f.Add(`{"pid":1234,"config":{"linux":{"resources":{"cpu_shares":2,"oom_score_adj":999,"memory_limit_in_bytes":1048576}}}}`)
	f.Add(`{"pid":-1,"config":{"linux":{"resources":{"memory_limit_in_bytes":-1}}}}`)
	f.Add(`not JSON`)
	f.Fuzz(func(t *testing.T, text string) {
		info := map[string]string{"info": text}
		pid, err := processID(info)
		if pid < 0 || err != nil && pid != 0 {
			t.Errorf("PID %d, %v", pid, err)
		}
		r, err := verboseResources(info)
		if err != nil && r != (Resources{}) || r.MemoryLimit > 1<<63-1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
