package lab

import (
	"strings"
	"testing"
)

func TestGuestPanic(t *testing.T) {
	if err := guestPanic([]byte("[ 1.0] Linux version 6.12\r\n[ 2.0] systemd[1]: Oops, a unit\r\n")); err != nil {
		t.Errorf("without a panic: %v", err)
	}
	err := guestPanic([]byte("[ 1.0] Linux version 6.12\r\n[ 2.0] Oops: int3: 0000 [#1]\r\n[ 2.0] RIP: 0010:somewhere\r\n" +
		strings.Repeat("[ 2.1]  ? frame\r\n", 30) + "[ 2.2] Kernel panic - not syncing: Fatal exception\r\n"))
	if err == nil || !strings.Contains(err.Error(), "int3: 0000 [#1]\n[ 2.0] RIP") || strings.Contains(err.Error(), "Linux version") {
		t.Errorf("with a panic: %v", err)
	}
}
