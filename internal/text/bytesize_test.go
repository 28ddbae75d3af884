package text

import "testing"

func TestText(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[uint64]string{
		0: "0", 1: "1", 4096: "4Ki", 1<<20 - 1: "1023Ki", 1023: "1023", 1 << 20: "1Mi", 1<<20 + 1: "1Mi", 512 << 20: "512Mi", 1<<30 + 1: "1Gi", 1500 << 20: "1500Mi",
	} {
		if got := Bytes(bytes); got != want {
			t.Errorf("%d: %s; want %s", bytes, got, want)
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{
		0: "0", 1 << 30: "1Gi", 1500 << 20: "1500Mi", 1000: "1k", 16777216<<10 + 1024: "16384Mi", 29196 << 20: "29196Mi", 12345678901: "11773Mi",
	} {
		if got := RoundBytes(bytes); got != want {
			t.Errorf("%d: %s; want %s", bytes, got, want)
		}
	}
}
