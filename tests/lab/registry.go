package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stateName is the file in a node's folder that says which process is the machine.
const stateName = "node.json"

// Status is what is known of a node without asking it.
type Status struct {
	Name, Flavour string
	// Running tells whether its machine runs.
	Running bool
	// Detached is true for a node that outlives the process that started it.
	Detached bool
	Port     int
	Started  time.Time
}

func (c Cache) nodeDir(name string) string { return filepath.Join(c.Dir, "nodes", name) }

// lockNode lets one process at a time start or stop a node of that name.
func (c Cache) lockNode(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(c.Dir, "nodes"), 0o755); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout+shutdownTimeout, errors.New("too long"))
	defer cancel()
	unlock, err = lockFile(ctx, c.nodeDir(name)+".lock")
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return unlock, nil
}

// List returns the nodes of the cache, those of other processes too.
func List(_ context.Context) ([]Status, error) {
	c, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	states, err := c.states()
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, s := range states {
		all = append(all, Status{
			Name: s.Name, Flavour: s.Flavour, Running: s.Process.Alive(), Detached: s.Detached,
			Port: s.Port, Started: s.Started,
		})
	}
	return all, nil
}

func (c Cache) states() ([]state, error) {
	entries, err := os.ReadDir(filepath.Join(c.Dir, "nodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	var states []state
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s, err := c.state(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // just being made, or just gone
		}
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

func (c Cache) state(name string) (state, error) {
	var s state
	data, err := os.ReadFile(filepath.Join(c.nodeDir(name), stateName))
	if err != nil {
		return s, fmt.Errorf("node %s: %w", name, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("node %s: %s: %w", name, stateName, err)
	}
	return s, nil
}

// Open returns a node that another process has started.
func Open(ctx context.Context, name string) (*Node, error) {
	c, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	s, err := c.state(name)
	if errors.Is(err, fs.ErrNotExist) {
		states, _ := c.states()
		var names []string
		for _, s := range states {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("node %q: there is none of this name; there are: %s", name, orNone(names))
	}
	if err != nil {
		return nil, err
	}
	keys, err := c.keys(ctx)
	if err != nil {
		return nil, err
	}
	config, err := keys.clientConfig()
	if err != nil {
		return nil, err
	}
	n := &Node{
		Name: s.Name, Flavour: s.Flavour, Dir: c.nodeDir(name), Port: s.Port, Started: s.Started,
		cache: c, keys: keys, process: s.Process,
		conn: &connection{node: s.Name, addr: fmt.Sprintf("127.0.0.1:%d", s.Port), config: config},
	}
	n.http = n.HTTPClient()
	return n, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// removeDead removes what is left of tests that were killed: their machines have ended with them.
func (c Cache) removeDead(ctx context.Context) error {
	states, err := c.states()
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Detached || s.Process.Alive() {
			continue
		}
		unlock, err := c.lockNode(ctx, s.Name)
		if err != nil {
			return err
		}
		// Another process may have taken the name in between.
		if again, err := c.state(s.Name); err == nil && !again.Process.Alive() {
			err = os.RemoveAll(c.nodeDir(s.Name))
			if err != nil {
				unlock()
				return err
			}
		}
		unlock()
	}
	return nil
}
