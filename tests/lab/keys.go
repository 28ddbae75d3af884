package lab

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// hostAlias is the name under which ssh stores the host key of every node: ports change, the key
// does not.
const hostAlias = "lab-node"

// keys holds the two key pairs of a cache: the user's, and the host key of all nodes. The host key
// makes ssh refuse any other server on the port.
type keys struct {
	dir string
}

func (k keys) user() string       { return filepath.Join(k.dir, "id_ed25519") }
func (k keys) host() string       { return filepath.Join(k.dir, "host_ed25519") }
func (k keys) knownHosts() string { return filepath.Join(k.dir, "known_hosts") }

// keys returns the key pairs, and makes them at the first call.
func (c cache) keys(ctx context.Context) (keys, error) {
	key, err := keyOf("ed25519", hostAlias, 1)
	if err != nil {
		return keys{}, err
	}
	dir, err := c.ensure(ctx, "keys", "ssh", key, func(_ context.Context, dir string) error {
		k := keys{dir: dir}
		if _, err := writeKeyPair(k.user(), "lab user"); err != nil {
			return err
		}
		host, err := writeKeyPair(k.host(), "lab node")
		if err != nil {
			return err
		}
		line := append([]byte(hostAlias+" "), host...)
		return os.WriteFile(k.knownHosts(), line, 0o644)
	})
	return keys{dir: dir}, err
}

// writeKeyPair writes a new key pair in OpenSSH's format and returns the line of the public key.
func writeKeyPair(path, comment string) ([]byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	line := ssh.MarshalAuthorizedKey(key)
	return line, os.WriteFile(path+".pub", line, 0o644)
}

// seed returns the files with a node's host key and with the key of its user.
func (k keys) seed() []File {
	return []File{
		{Path: "/etc/ssh/ssh_host_ed25519_key", Mode: 0o600, Source: k.host()},
		{Path: "/etc/ssh/ssh_host_ed25519_key.pub", Mode: 0o644, Source: k.host() + ".pub"},
		{Path: "/root/.ssh", Mode: os.ModeDir | 0o700},
		{Path: "/root/.ssh/authorized_keys", Mode: 0o600, Source: k.user() + ".pub"},
	}
}

// clientConfig returns the ssh configuration of this package. The algorithms are the cheapest
// without hardware help. Go's default key exchange has a post-quantum part, which costs the
// emulated guest time.
func (k keys) clientConfig() (*ssh.ClientConfig, error) {
	private, err := os.ReadFile(k.user())
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", k.user(), err)
	}
	public, err := os.ReadFile(k.host() + ".pub")
	if err != nil {
		return nil, err
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		return nil, fmt.Errorf("key %s.pub: %w", k.host(), err)
	}
	return &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherChaCha20Poly1305},
		},
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   ssh.FixedHostKey(hostKey),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}, nil
}
