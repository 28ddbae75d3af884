package daemon

import (
	"sync"
	"time"
)

// connections holds what is known of the connections to the runtime.
type connections struct {
	mu           sync.Mutex
	runtimeSince time.Time // when the runtime began to answer; zero while it does not
}
