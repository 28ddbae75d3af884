package lab

import (
	"fmt"
	"time"
)

// step tells that something long begins; the returned function tells how long it took.
func step(progress func(string), name string) (done func()) {
	began := time.Now()
	progress(name + " ...")
	return func() { progress(fmt.Sprintf("%s: %.1f s", name, time.Since(began).Seconds())) }
}
