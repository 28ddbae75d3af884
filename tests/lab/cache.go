package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cache is the folder that keeps everything expensive, outside the source tree. Every entry is a
// folder kind/name-key that appears whole or not at all.
type cache struct {
	// Dir is the folder itself.
	Dir string
}

// defaultCache returns the cache of this user: $NODE_PARTITION_CACHE, else node-partition below
// $XDG_CACHE_HOME, else below ~/.cache. The script lab finds and refuses the same folders.
func defaultCache() (cache, error) {
	dir := os.Getenv("NODE_PARTITION_CACHE")
	if dir == "" {
		base, home := os.Getenv("XDG_CACHE_HOME"), os.Getenv("HOME")
		switch {
		case base != "":
		case home != "":
			base = home + "/.cache"
		default:
			return cache{}, errors.New("cache folder: HOME is not set: set NODE_PARTITION_CACHE to an absolute path")
		}
		dir = base + "/node-partition"
	}
	if !filepath.IsAbs(dir) {
		return cache{}, fmt.Errorf("cache folder %s: not an absolute path: set NODE_PARTITION_CACHE to one", dir)
	}
	if strings.ContainsAny(dir, " \t\n\v\f\r,:") {
		return cache{}, fmt.Errorf("cache folder %q: options of ssh and qemu cannot carry white space, a comma or a colon: "+
			"set NODE_PARTITION_CACHE to a path without", dir)
	}
	return cache{Dir: filepath.Clean(dir)}, nil
}

// key is the hash of all inputs of an entry.
type key string

// keyOf hashes its inputs in order. They must marshal to JSON.
func keyOf(inputs ...any) (key, error) {
	data, err := json.Marshal(inputs)
	if err != nil {
		return "", fmt.Errorf("cache key: %w", err)
	}
	sum := sha256.Sum256(data)
	return key(hex.EncodeToString(sum[:8])), nil
}

// Path returns the path of an entry, built or not.
func (c cache) path(kind, name string, key key) string {
	return filepath.Join(c.Dir, kind, name+"-"+string(key))
}

// ensure returns the folder of an entry, and builds it first if there is none. If several processes
// want the same entry, one builds it and the others wait. A build that fails or is killed leaves no
// entry: it writes into a folder of its own, which the next build of the same entry removes.
func (c cache) ensure(
	ctx context.Context,
	kind, name string,
	key key,
	build func(ctx context.Context, dir string) error,
) (string, error) {
	entry := c.path(kind, name, key)
	if exists(entry) {
		return entry, used(entry)
	}
	parent := filepath.Dir(entry)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("cache entry %s: %w", entry, err)
	}
	unlock, err := lockFile(ctx, entry+".lock")
	if err != nil {
		return "", fmt.Errorf("cache entry %s: %w", entry, err)
	}
	defer unlock()
	if exists(entry) {
		return entry, used(entry)
	}
	if err := removePartials(entry); err != nil {
		return "", fmt.Errorf("cache entry %s: remove what a killed build left: %w", entry, err)
	}
	partial, err := newPartial(entry)
	if err != nil {
		return "", fmt.Errorf("cache entry %s: %w", entry, err)
	}
	if err := build(ctx, partial); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	// A cancelled build may have returned without an error.
	if err := ctx.Err(); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, entry); err != nil {
		return "", fmt.Errorf("cache entry %s: %w", entry, err)
	}
	return entry, nil
}

// newPartial makes the folder in which an entry is built. No two builds share one: on a host
// without namespaces a child of a killed build may still write into its own.
func newPartial(entry string) (string, error) {
	partial, err := os.MkdirTemp(filepath.Dir(entry), filepath.Base(entry)+partialMark+"-*")
	if err != nil {
		return "", err
	}
	return partial, os.Chmod(partial, 0o755)
}

// partialMark is in the name of a folder that is not yet, or no longer, an entry.
const partialMark = ".partial"

// removePartials removes the folders that killed builds of an entry have left. The caller holds the
// entry's lock.
func removePartials(entry string) error {
	left, err := filepath.Glob(entry + partialMark + "*")
	if err != nil {
		return err
	}
	var failed []error
	for _, dir := range left {
		failed = append(failed, os.RemoveAll(dir))
	}
	return errors.Join(failed...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// lockFile takes an exclusive lock, which the kernel releases when the process ends, however it
// ends. The file exists only while a process holds the lock or waits for it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		unlock, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: held by another process: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// tryLock returns nil and no error if another process holds the lock.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return nil, nil
		}
		return nil, err
	}
	// The previous holder may have removed the file between our open and our lock. A lock on a removed
	// file keeps no other process out.
	mine, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if named, statErr := os.Stat(path); statErr != nil || !os.SameFile(mine, named) {
		return nil, f.Close()
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close()
	}, nil
}

// hashTree returns path and content hash of every file of a tree, for a key.
func hashTree(tree fs.FS, roots ...string) (map[string]string, error) {
	sums := map[string]string{}
	for _, root := range roots {
		err := fs.WalkDir(tree, root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			sums[path] = hex.EncodeToString(sum[:])
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("hash %s: %w", strings.Join(roots, ", "), err)
		}
	}
	return sums, nil
}

// writeFileAtomic writes a file so that readers see all of it or nothing.
func writeFileAtomic(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
