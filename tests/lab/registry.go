package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// stateName is the file in a node's folder that identifies the machine's process.
const stateName = "node.json"

// Status describes a node without connecting to it.
type Status struct {
	Name, Flavour string
	// Running means that its machine runs. A test's machine also counts as running between two boots,
	// while the test runs.
	Running bool
	// Unfinished marks the leftovers of a start that was killed. Only their Name is set.
	Unfinished bool
	// Detached means that the node outlives the process that started it.
	Detached bool
	Port     int
	Started  time.Time
}

func (c cache) nodeDir(name string) string { return filepath.Join(c.Dir, "nodes", name) }

// lockNode lets one process at a time start or stop a node of that name.
func (c cache) lockNode(ctx context.Context, name string) (unlock func(), err error) {
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

// List returns the nodes of the cache, including those of other processes.
func List(_ context.Context) ([]Status, error) {
	c, err := defaultCache()
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
			Name: s.Name, Flavour: s.Flavour, Running: s.running(), Detached: s.Detached,
			Port: s.Port, Started: s.Started,
		})
	}
	unfinished, err := c.unfinished()
	if err != nil {
		return nil, err
	}
	for _, name := range unfinished {
		all = append(all, Status{Name: name, Unfinished: true})
	}
	return all, nil
}

// running reports whether the machine runs, or whether its test runs, which may be booting it
// again.
func (s state) running() bool { return s.Process.alive() || (!s.Detached && s.Owner.alive()) }

func (c cache) states() ([]state, error) {
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

func (c cache) state(name string) (state, error) {
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

func (c cache) hasState(name string) bool { return exists(filepath.Join(c.nodeDir(name), stateName)) }

// unfinished returns the names of the folders without a state that no process is making.
func (c cache) unfinished() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(c.Dir, "nodes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() || c.hasState(e.Name()) {
			continue
		}
		unlock, err := tryLock(c.nodeDir(e.Name()) + ".lock")
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", e.Name(), err)
		}
		if unlock == nil {
			continue // it is being started or stopped
		}
		if exists(c.nodeDir(e.Name())) && !c.hasState(e.Name()) {
			names = append(names, e.Name())
		}
		unlock()
	}
	return names, nil
}

// removeUnfinished removes a folder without a state, if there is one. A detached machine may have
// been started before the state was written. The caller holds the node's lock.
func (c cache) removeUnfinished(ctx context.Context, name string) error {
	dir := c.nodeDir(name)
	if !exists(dir) {
		return nil
	}
	err := endMachine(ctx, filepath.Join(dir, consoleName))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("node %s: remove what a killed start left: %w", name, err)
	}
	return nil
}

// endMachine ends the machine that was started with this console, if there is one. It finds the
// machine by its command line, which exists from its first moment on. A file with its number would
// not.
func endMachine(ctx context.Context, console string) error {
	all, err := procfs.AllProcs()
	if err != nil {
		return fmt.Errorf("find a machine: %w", err)
	}
	for _, proc := range all {
		// Read the identity first: it is useless if another process gets the number before that.
		p, err := identify(proc.PID)
		if err != nil {
			continue // it has just ended
		}
		if args, err := proc.CmdLine(); err == nil && slices.Contains(args, consoleArg(console)) {
			if err := p.end(ctx, endGrace); err != nil {
				return err
			}
		}
	}
	return nil
}

// Down powers a node off and removes it. It also removes the leftovers of a start that was killed.
func Down(ctx context.Context, name string) error {
	c, err := defaultCache()
	if err != nil {
		return err
	}
	if !nodeName.MatchString(name) || c.hasState(name) || !exists(c.nodeDir(name)) {
		n, err := Open(ctx, name)
		if err != nil {
			return err
		}
		return n.shutdown(ctx)
	}
	unlock, err := c.lockNode(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if c.hasState(name) {
		return fmt.Errorf("node %s: somebody has just started it: if it is to go, run this again", name)
	}
	return c.removeUnfinished(ctx, name)
}

// Open returns a node that another process has started.
func Open(ctx context.Context, name string) (*Node, error) {
	c, err := defaultCache()
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
		Name: s.Name, Flavour: s.Flavour, Hostname: s.Hostname, Dir: c.nodeDir(name), Port: s.Port, Started: s.Started,
		cache: c, keys: keys, process: s.Process,
		conn: &connection{node: s.Name, addr: fmt.Sprintf("127.0.0.1:%d", s.Port), config: config},
	}
	n.http = n.httpClient()
	return n, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// removeDead removes the leftovers of tests and starts that were killed. The machines of tests have
// ended with them.
func (c cache) removeDead(ctx context.Context) error {
	states, err := c.states()
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Detached || s.running() {
			continue
		}
		unlock, err := c.lockNode(ctx, s.Name)
		if err != nil {
			return err
		}
		// Another process may have taken the name in between.
		if again, err := c.state(s.Name); err == nil && !again.Detached && !again.running() {
			err = os.RemoveAll(c.nodeDir(s.Name))
			if err != nil {
				unlock()
				return err
			}
		}
		unlock()
	}
	unfinished, err := c.unfinished()
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		unlock, err := c.lockNode(ctx, name)
		if err != nil {
			return err
		}
		if !c.hasState(name) {
			err = c.removeUnfinished(ctx, name)
		}
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
