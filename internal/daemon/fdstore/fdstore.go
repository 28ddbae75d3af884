// Package fdstore keeps listening sockets in the file descriptor store of systemd
// (FileDescriptorStoreMax= in systemd.service(5)). The kernel accepts connections for a stored
// socket while the service restarts, and the new process answers them.
package fdstore

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"nodepartition/internal/systemd"
)

// prefix begins the names of sockets that this package has stored. A socket unit's name differs.
const prefix = "listen."

// Store holds the sockets that systemd has passed to this process. Its zero value holds none.
// Methods may be called concurrently.
type Store struct {
	mu     sync.Mutex
	passed map[string]net.Listener // by name
}

// Take returns the sockets that systemd has passed to this process (sd_listen_fds(3)), and removes
// the variables that name them. The sockets of other addresses than those given leave the store.
// The error is systemd's refusal to do so; the Store is usable all the same.
func Take(addresses ...string) (*Store, error) {
	return take(activation.Files(true), addresses)
}

func take(files []*os.File, addresses []string) (*Store, error) {
	var problems []error
	s := &Store{passed: map[string]net.Listener{}}
	wanted := map[string]bool{}
	for _, address := range addresses {
		wanted[nameOf(address)] = true
	}
	for _, file := range files {
		name := file.Name()
		ours := strings.HasPrefix(name, prefix)
		listener, err := net.FileListener(file) // a duplicate
		_ = file.Close()
		switch {
		case err == nil && (wanted[name] || !ours) && s.passed[name] == nil:
			s.passed[name] = listener
		case err == nil:
			_ = listener.Close()
			fallthrough
		default:
			if ours {
				problems = append(problems, remove(name))
			}
		}
	}
	return s, errors.Join(problems...)
}

// Listener returns a socket that systemd has passed, nil if there is none: the one that was kept
// for the address, or the one of a socket unit. It returns each one once.
func (s *Store) Listener(address string) net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := nameOf(address)
	for unit := range s.passed {
		if !strings.HasPrefix(unit, prefix) {
			name = unit // an operator has made the unit for this service
		}
	}
	listener := s.passed[name]
	delete(s.passed, name)
	return listener
}

// Keep stores a listening socket in systemd for the next process. Without systemd, or without a
// store, it does nothing.
func (s *Store) Keep(address string, listener net.Listener) error {
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn() // os.File.Fd would make the socket blocking, for us too
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		// FDPOLL=0 (systemd 246): systemd need not watch a socket that never reports an error.
		sent = notify("FDSTORE=1\nFDPOLL=0\nFDNAME="+nameOf(address), unix.UnixRights(int(fd)))
	})
	return errors.Join(err, sent)
}

// Drop removes the socket of an address from the store. Otherwise it would keep the address in use,
// and clients would wait for an answer.
func (s *Store) Drop(address string) error { return remove(nameOf(address)) }

func remove(name string) error { return notify("FDSTOREREMOVE=1\nFDNAME="+name, nil) }

// nameOf returns the name of an address in the store, which may have no colon (sd_notify(3)).
func nameOf(address string) string { return prefix + strings.ReplaceAll(address, ":", "_") }

func notify(state string, rights []byte) error {
	if err := systemd.Notify(state, rights); err != nil {
		return fmt.Errorf("file descriptor store: %w", err)
	}
	return nil
}
