package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// ControlPlane is an API server with its etcd. They run on this machine beside the nodes, because
// emulated they would take minutes to start. A pod names its node, in a template, too, unless
// StartScheduler has started the scheduler. Pods need no service account. There are no controllers
// but the ones that StartControllers starts.
type ControlPlane struct {
	// Dir holds its data, keys and logs. Stop removes it.
	Dir string
	// Port is the port of the API on loopback.
	Port int

	cache       cache
	progress    func(string)
	args        []string // added to the API server's
	authority   *authority
	unlock      func()
	reserved    *os.File // keeps Port
	etcd        *daemon
	apiserver   *daemon
	controllers *daemon // nil without StartControllers
	scheduler   *daemon // nil without StartScheduler
	// controllerManager is the path of their program.
	controllerManager string
	config            *rest.Config
	client            apiClient
	// restart starts the API server as it was started first.
	restart func() (*daemon, error)
}

// HostAddress is the address of the host's loopback for a guest, in qemu's user network.
const HostAddress = "10.0.2.2"

// loopback is its address on this machine.
const loopback = "127.0.0.1"

// serviceAddress is the address of the service kubernetes: the first one of serviceRange.
const serviceAddress, serviceRange = "10.96.0.1", "10.96.0.0/16"

// StartControlPlane builds the programs if needed, starts the API server and returns when it is
// ready. It ends with Stop, or with this process, however that ends. StartControlPlane reports the
// steps that take long to progress, which may be nil.
func StartControlPlane(ctx context.Context, progress func(string)) (*ControlPlane, error) {
	return startControlPlane(ctx, controlPlanePrograms(), withoutAccounts(), progress)
}

// startAPIServer is StartControlPlane with an API server of a minor version, such as "1.35", with
// arguments that are added, and without programs for StartControllers. APIServers lists the older
// versions.
func startAPIServer(ctx context.Context, minor string, args []string, progress func(string)) (*ControlPlane, error) {
	programs, err := apiServer(minor)
	if err != nil {
		return nil, err
	}
	return startControlPlane(ctx, programs, slices.Concat(withoutAccounts(), args), progress)
}

func startControlPlane(
	ctx context.Context, server Program, args []string, progress func(string),
) (*ControlPlane, error) {
	if progress == nil {
		progress = func(string) {}
	}
	c, err := defaultCache()
	if err != nil {
		return nil, err
	}
	etcd, programs, err := c.controlPlane(ctx, server, progress)
	if err != nil {
		return nil, err
	}
	if err := c.removeDeadControlPlanes(); err != nil {
		return nil, fmt.Errorf("control plane: remove what a killed one left: %w", err)
	}
	p := &ControlPlane{
		cache: c, progress: progress, args: args, controllerManager: filepath.Join(programs, "kube-controller-manager"),
	}
	if p.Dir, p.unlock, err = c.newControlPlane(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	done := BeginStep(progress, "starting the control plane")
	if err := p.start(ctx, etcd, filepath.Join(programs, "kube-apiserver")); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), p.Stop())
	}
	done()
	return p, nil
}

// controlPlane returns the path of etcd and the folder of the programs of Kubernetes.
func (c cache) controlPlane(
	ctx context.Context, server Program, progress func(string),
) (etcd, programs string, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		etcd, err = c.etcd(ctx, progress)
		return err
	})
	group.Go(func() error {
		var err error
		programs, err = c.build(ctx, server, progress)
		return err
	})
	if err := group.Wait(); err != nil {
		return "", "", fmt.Errorf("prepare the control plane: %w", err)
	}
	return etcd, programs, nil
}

// newControlPlane makes a folder that belongs to its owner while the lock is held. The kernel
// releases the lock when this process ends.
func (c cache) newControlPlane() (dir string, unlock func(), err error) {
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

// removeDeadControlPlanes removes the folders whose owners have ended. Their programs have ended
// with them.
func (c cache) removeDeadControlPlanes() error {
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

// start writes the keys and starts the programs. If another process takes one of the ports first,
// it tries other ports.
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
	var err error
	if p.Port, p.reserved, err = reservePort(); err != nil {
		return err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	clients, peers := loopbackURL(ports[0]), loopbackURL(ports[1])
	if p.etcd, err = startDaemon(p.Dir, etcd, etcdArgs(clients, peers)...); err != nil {
		return err
	}
	p.restart = func() (*daemon, error) {
		return startDaemon(p.Dir, apiserver, append(apiserverArgs(p.Port, clients), p.args...)...)
	}
	if p.apiserver, err = p.restart(); err != nil {
		return err
	}
	p.config.Host = "https://" + loopbackAddress(p.Port)
	if p.client, err = newAPIClient(p.config); err != nil {
		return err
	}
	return p.waitReady(ctx)
}

func loopbackAddress(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func loopbackURL(port int) string { return "http://" + loopbackAddress(port) }

// reservePort takes a port of loopback for the API server. The server can listen on it
// nevertheless: Linux lets sockets with SO_REUSEADDR share a port on which only one listens, and
// Go's listeners set it. While the API server is down, connections are refused, and the kernel
// gives the port to no other process. Neither another server gets it, nor a client that asks for
// this very port, which would be connected to itself.
func reservePort() (port int, reserved *os.File, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	reserved = os.NewFile(uintptr(fd), "reserved port")
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("reserve a port: %w", err), reserved.Close())
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte(net.ParseIP(loopback).To4())}); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("reserve a port: %w", err), reserved.Close())
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("reserve a port: %w", err), reserved.Close())
	}
	return address.(*unix.SockaddrInet4).Port, reserved, nil
}

// etcdArgs returns the arguments of etcd. Its data ends with the test, and need not reach the disk.
func etcdArgs(clients, peers string) []string {
	return []string{
		"--name=lab", "--data-dir=data", "--unsafe-no-fsync",
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=lab=" + peers,
	}
}

func apiserverArgs(port int, etcd string) []string {
	return []string{
		"--etcd-servers=" + etcd, "--bind-address=" + loopback, fmt.Sprintf("--secure-port=%d", port),
		// No client uses the service kubernetes.
		"--advertise-address=" + HostAddress, "--endpoint-reconciler-type=none",
		"--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt",
		// As with kubeadm: a kubelet has the rights that a kubelet needs.
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceRange, "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
	}
}

// withoutAccounts are arguments of an API server beside which no controllers run from the start.
// Both plugins need one. The first requires the account "default" in each namespace. The second
// gives a new node the taint not-ready:NoSchedule until it is ready. Pods of a DaemonSet do not
// tolerate it, and the node would get none.
func withoutAccounts() []string {
	return []string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"}
}

func controllersArgs(kubeconfig string, names []string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--controllers=" + strings.Join(names, ","),
		// What root-ca-certificate-publisher-controller gives each namespace.
		"--root-ca-file=ca.crt",
		// As with kubeadm: each controller has an account of its own, with its usual rights.
		"--use-service-account-credentials=true",
		// There is only one, and it serves no requests.
		"--leader-elect=false", "--secure-port=0",
		// It logs the controllers that start from 1 on, and the failed pods that are deleted from 2 on.
		"--v=2",
	}
}

// StartControllers starts the kube-controller-manager with only the controllers of these names,
// such as "daemonset-controller", and returns when they have started. It ends with the control
// plane.
//
// The template of their pods has to name a node, unless StartScheduler has been called. The
// controllers take the template as it is, and a DaemonSet that names a node is for that node alone
// (nodeShouldRunDaemonPod, pkg/controller/daemon/daemon_controller.go, 1.37). A failed pod of a
// DaemonSet is deleted and made again, at once the first time, then after a second, two, four and
// so on. A failed pod of a ReplicaSet stays beside the new one. A test that deletes the set has to
// delete its pods, unless "garbage-collector-controller" runs.
func (p *ControlPlane) StartControllers(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return errors.New("start controllers: none is named")
	}
	if p.controllers != nil && p.controllers.err() == nil {
		return errors.New("start controllers: some run: name all of them at once")
	}
	done := BeginStep(p.progress, "starting the controllers")
	if err := p.startControllers(ctx, names); err != nil {
		return errors.Join(fmt.Errorf("start controllers: %w", err), p.controllers.kill())
	}
	done()
	return nil
}

func (p *ControlPlane) startControllers(ctx context.Context, names []string) error {
	const file = "controller-manager.conf"
	kubeconfig, err := p.kubeconfig(loopback, "system:kube-controller-manager")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.Dir, file), kubeconfig, 0o600); err != nil {
		return err
	}
	if p.controllers, err = startDaemon(p.Dir, p.controllerManager, controllersArgs(file, names)...); err != nil {
		return err
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	ctx, stop := whileRunning(ctx, p.controllers)
	defer stop()
	return waitFor(ctx, "controllers", pollInterval, func(context.Context) (bool, string, error) {
		messages, err := p.controllers.messages()
		if err != nil {
			return false, "", err
		}
		for _, name := range names {
			if !strings.Contains(messages, fmt.Sprintf(`"Controller starting..." controller=%q`, name)) {
				return false, name + " has not started: " + lastLines(messages, 3), nil
			}
		}
		return true, "", nil
	})
}

// writeKeys makes the authority, and the certificates of the server and of its administrator.
func (p *ControlPlane) writeKeys() error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	p.authority = a
	server, err := a.server("kube-apiserver", net.ParseIP(loopback), net.ParseIP(HostAddress), net.ParseIP(serviceAddress))
	if err != nil {
		return err
	}
	admin, err := a.client("lab-admin", "system:masters")
	if err != nil {
		return err
	}
	p.config = &rest.Config{
		TLSClientConfig: rest.TLSClientConfig{CAData: a.pem, CertData: admin.certificate, KeyData: admin.key},
		// A test may send many requests.
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

// waitReady waits until the API server is ready and has made the namespaces of static pods.
func (p *ControlPlane) waitReady(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	ctx, stop := whileRunning(ctx, p.etcd, p.apiserver)
	defer stop()
	return waitFor(ctx, "API server", pollInterval, p.ready)
}

// Config returns the configuration of a client with all rights.
func (p *ControlPlane) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Interrupt ends the API server at once, as if its machine were switched off: connections are
// refused until Restore. Its objects are in etcd, which stays.
func (p *ControlPlane) Interrupt() error {
	if err := p.apiserver.kill(); err != nil {
		return fmt.Errorf("interrupt the API server: %w", err)
	}
	return nil
}

// Restore ends Interrupt, and returns when the API server is ready: on the same port, with the same
// keys and objects. Kubelets and controllers may come back a minute later: they wait longer after
// each refusal, up to between 30 s and a minute (defaultBackoffMax,
// client-go/tools/cache/reflector.go, 0.37).
func (p *ControlPlane) Restore(ctx context.Context) error {
	if err := p.restore(ctx); err != nil {
		return fmt.Errorf("restore the API server: %w", err)
	}
	return nil
}

func (p *ControlPlane) restore(ctx context.Context) error {
	apiserver, err := p.restart()
	if err != nil {
		return err
	}
	p.apiserver = apiserver
	return p.waitReady(ctx)
}

// Stop ends the control plane at once, even one that is interrupted, and removes all its files.
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

func (p *ControlPlane) kill() error {
	err := errors.Join(p.scheduler.kill(), p.controllers.kill(), p.apiserver.kill(), p.etcd.kill())
	_ = p.reserved.Close() // not reserved yet, or no longer
	return err
}

// keepLogs copies the programs' messages to a folder that stays.
func (p *ControlPlane) keepLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, d := range []*daemon{p.etcd, p.apiserver, p.controllers, p.scheduler} {
		if d == nil {
			continue
		}
		data, err := os.ReadFile(d.log)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(d.log)), data, 0o644)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
