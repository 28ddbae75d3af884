package lab

import (
	"fmt"
	"time"
)

// step reports the begin of a long step. The returned function reports how long it took.
func step(progress func(string), name string) (done func()) {
	began := time.Now()
	progress(name + " ...")
	return func() { progress(fmt.Sprintf("%s: %.1f s", name, time.Since(began).Seconds())) }
}
