package cri

import "testing"

// FuzzVerbose: from whatever a runtime says for people, the process is one that can exist, and what
// is not JSON is an error.
func FuzzVerbose(f *testing.F) {
	f.Add(`{"pid":1234,"config":{"linux":{"resources":{"cpu_shares":2,"oom_score_adj":999,"memory_limit_in_bytes":1048576}}}}`)
	f.Add(`{"pid":-1,"config":{"linux":{"resources":{"memory_limit_in_bytes":-1}}}}`)
	f.Add(`not JSON`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := verboseStatus(map[string]string{"info": text})
		if s.PID < 0 || s.MemoryLimit > 1<<63-1 || err != nil && s != (Status{}) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
