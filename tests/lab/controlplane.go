package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ControlPlane is an API server with its etcd, which run on this machine beside the nodes: emulated they would take
// minutes to start. There is no scheduler and no controller: a pod names its node, and needs no service account.
type ControlPlane struct {
	// Dir holds its data, keys and logs. Stop removes it.
	Dir string
	// Port is where the API is on loopback.
	Port int

	cache     Cache
	authority *authority
	unlock    func()
	etcd      *daemon
	apiserver *daemon
	config    *rest.Config
	client    kubernetes.Interface
}

// hostAddress is where a guest sees the loopback of its host, in qemu's user network.
const hostAddress = "10.0.2.2"

// StartControlPlane builds the API server when it has not been, starts it and returns when it is ready. It ends with Stop, or
// with this process, however that ends. The steps that take long are told to progress, which may be nil.
func StartControlPlane(ctx context.Context, progress func(string)) (*ControlPlane, error) {
	if progress == nil {
		progress = func(string) {}
	}
	c, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	etcd, apiserver, err := c.controlPlane(ctx, progress)
	if err != nil {
		return nil, err
	}
	if err := c.removeDeadControlPlanes(); err != nil {
		return nil, fmt.Errorf("control plane: remove what a killed one left: %w", err)
	}
	p := &ControlPlane{cache: c}
	if p.Dir, p.unlock, err = c.newControlPlane(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	done := step(progress, "starting the control plane")
	if err := p.start(ctx, etcd, apiserver); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), p.Stop())
	}
	done()
	return p, nil
}

// PrepareControlPlane makes everything expensive of a control plane and keeps it in the cache. The steps that take long are
// told to progress.
func PrepareControlPlane(ctx context.Context, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	c, err := DefaultCache()
	if err != nil {
		return err
	}
	_, _, err = c.controlPlane(ctx, progress)
	return err
}

// controlPlane returns the paths of the programs.
func (c Cache) controlPlane(ctx context.Context, progress func(string)) (etcd, apiserver string, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		etcd, err = c.etcd(ctx, progress)
		return err
	})
	group.Go(func() error {
		dir, err := c.build(ctx, kubeAPIServer(), progress)
		apiserver = filepath.Join(dir, "kube-apiserver")
		return err
	})
	if err := group.Wait(); err != nil {
		return "", "", fmt.Errorf("prepare the control plane: %w", err)
	}
	return etcd, apiserver, nil
}

// newControlPlane makes a folder that is its owner's as long as the lock is held, which the kernel releases when this
// process ends.
func (c Cache) newControlPlane() (dir string, unlock func(), err error) {
	id, err := machineID()
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(c.Dir, "controlplanes", id[:8])
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", nil, err
	}
	unlock, err = tryLock(dir + ".lock")
	if err != nil {
		return "", nil, err
	}
	if unlock == nil {
		return "", nil, fmt.Errorf("%s: somebody else has it", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		unlock()
		return "", nil, err
	}
	return dir, unlock, nil
}

// removeDeadControlPlanes removes the folders whose owners have ended. Their programs have ended with them.
func (c Cache) removeDeadControlPlanes() error {
	parent := filepath.Join(c.Dir, "controlplanes")
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var failed []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		unlock, err := tryLock(dir + ".lock")
		if err != nil || unlock == nil {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, os.RemoveAll(dir))
		unlock()
	}
	return errors.Join(failed...)
}

// start writes the keys and starts the programs, on other ports when somebody else takes one first.
func (p *ControlPlane) start(ctx context.Context, etcd, apiserver string) error {
	if err := p.writeKeys(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := p.startOnFreePorts(ctx, etcd, apiserver)
		if err == nil {
			return nil
		}
		taken := (p.etcd != nil && p.etcd.portTaken()) || (p.apiserver != nil && p.apiserver.portTaken())
		if killErr := p.kill(); killErr != nil || !taken || try == maxPorts {
			return errors.Join(err, killErr)
		}
		if err := os.RemoveAll(filepath.Join(p.Dir, "data")); err != nil {
			return err
		}
	}
}

func (p *ControlPlane) startOnFreePorts(ctx context.Context, etcd, apiserver string) error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	p.Port = ports[0]
	clients, peers := loopbackURL(ports[1]), loopbackURL(ports[2])
	var err error
	if p.etcd, err = startDaemon(p.Dir, etcd, etcdArgs(clients, peers)...); err != nil {
		return err
	}
	if p.apiserver, err = startDaemon(p.Dir, apiserver, apiserverArgs(p.Port, clients)...); err != nil {
		return err
	}
	p.config.Host = fmt.Sprintf("https://127.0.0.1:%d", p.Port)
	if p.client, err = kubernetes.NewForConfig(p.config); err != nil {
		return err
	}
	return p.waitReady(ctx)
}

func loopbackURL(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// etcdArgs: what it holds is gone with the test, and need not reach the disk.
func etcdArgs(clients, peers string) []string {
	return []string{
		"--name=lab", "--data-dir=data", "--unsafe-no-fsync",
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=lab=" + peers,
	}
}

func apiserverArgs(port int, etcd string) []string {
	return []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		// Nobody reaches it through the service kubernetes.
		"--advertise-address=" + hostAddress, "--endpoint-reconciler-type=none",
		"--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt",
		// As kubeadm has it: a kubelet may do what a kubelet has to.
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
		// It wants the account "default" of each namespace, which a controller makes that is not here.
		"--disable-admission-plugins=ServiceAccount",
	}
}

// writeKeys makes the authority, and the certificates of the server and of its administrator.
func (p *ControlPlane) writeKeys() error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	p.authority = a
	server, err := a.server("kube-apiserver", net.ParseIP("127.0.0.1"), net.ParseIP(hostAddress))
	if err != nil {
		return err
	}
	admin, err := a.client("lab-admin", "system:masters")
	if err != nil {
		return err
	}
	p.config = &rest.Config{
		TLSClientConfig: rest.TLSClientConfig{CAData: a.pem, CertData: admin.certificate, KeyData: admin.key},
		// A test may ask often.
		QPS: -1,
	}
	for name, data := range map[string][]byte{
		"ca.crt": a.pem, "server.crt": server.certificate, "server.key": server.key, "sa.key": server.key,
	} {
		if err := os.WriteFile(filepath.Join(p.Dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// waitReady waits until the API server says it is ready and has made the namespaces of static pods.
func (p *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	watchCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-p.etcd.exited:
			stop(p.etcd.err())
		case <-p.apiserver.exited:
			stop(p.apiserver.err())
		case <-watchCtx.Done():
		}
	}()
	return waitFor(watchCtx, "API server", pollInterval, func(ctx context.Context) (bool, string, error) {
		if seen, err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return false, string(seen), err
		}
		for _, namespace := range []string{v1.NamespaceDefault, metav1.NamespaceSystem} {
			if _, err := p.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
				return false, "ready", err
			}
		}
		return true, "", nil
	})
}

// Client returns a client that may do everything.
func (p *ControlPlane) Client() kubernetes.Interface { return p.client }

// Stop ends it at once and removes all that is left of it.
func (p *ControlPlane) Stop() error {
	if err := p.kill(); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	err := os.RemoveAll(p.Dir)
	p.unlock()
	if err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	return nil
}

func (p *ControlPlane) kill() error { return errors.Join(p.apiserver.kill(), p.etcd.kill()) }

// keepLogs copies what the programs said to a folder that stays.
func (p *ControlPlane) keepLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, d := range []*daemon{p.etcd, p.apiserver} {
		data, err := os.ReadFile(d.log)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(d.log)), data, 0o644)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
