//go:build node

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodepartition/internal/kubeapi"
	"nodepartition/internal/kubeletconfig"
	"nodepartition/internal/nodelabel"
	"nodepartition/internal/unitname"
	"nodepartition/tests/lab"
)

// releaseName is the name of the release, and its namespace.
const releaseName = "node-partition"

// fleetCluster is a cluster to which Helm brings partitions.
type fleetCluster struct {
	*lab.Cluster
	flavour string
	// helm is the path of Helm's program, and home the folder of its settings.
	helm, home, kubeconfig string
	// charts and images are by version. The chart names the image by its digest.
	charts map[string]string
	images map[string][]byte
	nodes  []*fleetNode
}

// newFleetCluster starts a cluster with nodes of these names, without anything of the project but
// the images of these versions.
func newFleetCluster(t *testing.T, flavour string, versions, names []string) *fleetCluster {
	t.Helper()
	// Built before the nodes take the places of the host.
	dir := t.TempDir()
	c := &fleetCluster{flavour: flavour, helm: filepath.Join(dir, "helm"), home: dir, charts: map[string]string{}, images: map[string][]byte{}}
	build := exec.Command("go", "build", "-C", "../../deploy/chart/charttest", "-o", c.helm, "helm.sh/helm/v3/cmd/helm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, version := range versions {
		bin := filepath.Join(dir, version)
		builtIn(t, bin, "chart", version, "1", "IMAGE_ARCHIVE=$(BIN)/image.tar")
		found, err := filepath.Glob(filepath.Join(bin, "chart", "*.tgz"))
		if err != nil || len(found) != 1 {
			t.Fatalf("charts of %s: %q, %v", version, found, err)
		}
		c.charts[version] = found[0]
		if c.images[version], err = os.ReadFile(filepath.Join(bin, "image.tar")); err != nil {
			t.Fatal(err)
		}
	}
	c.Cluster = lab.ClusterForTest(t)
	var err error
	if c.kubeconfig, err = c.WriteKubeconfig(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		c.join(t, name)
	}
	return c
}

// join adds a node, and waits until it is Ready and its pods run.
func (c *fleetCluster) join(t *testing.T, name string) *fleetNode {
	t.Helper()
	n := c.Join(lab.Options{Name: name, Flavour: c.flavour, Files: protectingNoPod(c.flavour)})
	for _, image := range c.images {
		imported(t, n, image)
	}
	c.becomes(t, "node "+name+" is Ready, and its pods, too", func(ctx context.Context) (string, error) {
		node, err := c.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == v1.NodeReady && condition.Status != v1.ConditionTrue {
				return condition.Message, nil
			}
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Sprintf("taints %v", node.Spec.Taints), nil
		}
		pods, err := c.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		if err != nil || len(pods.Items) == 0 {
			return "no pods", err
		}
		for _, p := range pods.Items {
			if !slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue }) {
				return p.Name + " is not Ready", nil
			}
		}
		return "", nil
	})
	f := fleetNodeOf(t, n)
	c.nodes = append(c.nodes, f)
	return f
}

// becomes waits until a function finds nothing that is missing.
func (c *fleetCluster) becomes(t *testing.T, what string, missing func(context.Context) (string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	if err := c.Eventually(ctx, what, func(ctx context.Context) (bool, string, error) {
		why, err := missing(ctx)
		return why == "", why, err
	}); err != nil {
		t.Fatal(err)
	}
}

// helmed runs Helm.
func (c *fleetCluster) helmed(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.helm, append(args, "--namespace="+releaseName)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HELM_CONFIG_HOME="+c.home, "HELM_CACHE_HOME="+c.home, "HELM_DATA_HOME="+c.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// roll installs a version with a section, or upgrades to it. It returns an error if a node fails.
func (c *fleetCluster) roll(ctx context.Context, t *testing.T, version, section string, set ...string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node-partition.yaml")
	document := "apiVersion: " + kubeletconfig.APIVersion + "\nkind: " + kubeletconfig.Kind + "\n" + section
	if err := os.WriteFile(file, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	args := make([]string, 0, 10+len(set))
	args = append(args,
		"upgrade", "--install", releaseName, c.charts[version], "--create-namespace", "--timeout=40m",
		"--set=image.repository="+installerImage, "--set=image.pullPolicy=Never", "--set=roll.pause=1s", "--set-file=sectionFile="+file,
	)
	for _, s := range set {
		args = append(args, "--set="+s)
	}
	out, err := c.helmed(ctx, args...)
	t.Logf("%s%v", out, err)
	return err
}

// podsOfJob returns the pods of a Job of the release.
func (c *fleetCluster) podsOfJob(t *testing.T, job string) []v1.Pod {
	t.Helper()
	pods, err := c.Client().CoreV1().Pods(releaseName).List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// report returns the result of the dispatcher, whose Job failed.
func (c *fleetCluster) report(t *testing.T, job string) string {
	t.Helper()
	var text []string
	for _, p := range c.podsOfJob(t, job) {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil {
				text = append(text, s.State.Terminated.Message)
			}
		}
	}
	return strings.Join(text, "\n")
}

// rolled holds the labels of a roll.
type rolled struct{ version, state, reason string }

// rolled returns the labels of a roll that a node has.
func (c *fleetCluster) rolled(t *testing.T, name string) rolled {
	t.Helper()
	n, err := c.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rolled{n.Labels["node-partition.io/version"], n.Labels["node-partition.io/state"], n.Labels["node-partition.io/reason"]}
}

// wantState checks the labels of a roll.
func (c *fleetCluster) wantState(t *testing.T, name, version, state, reason string) {
	t.Helper()
	if got, wanted := c.rolled(t, name), (rolled{version, state, reason}); got != wanted {
		t.Errorf("node %s has the labels %q; want %q", name, got, wanted)
	}
}

// active: the partition of 512 MiB is in force on a node, and nothing of the roll is left.
func (f *fleetNode) active(t *testing.T) {
	t.Helper()
	wantLimits(t, f.Node, "536870912", "0-1")
	inSlice(t, f.Node, "kube-system", "system-agent", unitname.System, v1.PodQOSBurstable)
	f.forgotten(t)
	want(t, f.Node, "systemctl is-active "+monitorUnit, "active")
}

// still holds what a roll without a change leaves as it is.
type still struct{ files, reloads, monitor, services, processes string }

func (f *fleetNode) still(t *testing.T) still {
	t.Helper()
	return still{
		files: run(t, f.Node, written), reloads: run(t, f.Node, reloads), monitor: property(t, f.Node, monitorUnit, "MainPID"),
		services: run(t, f.Node, servicePIDs), processes: f.processes(t),
	}
}

// processes lists the processes of the pods that the node has by itself.
func (f *fleetNode) processes(t *testing.T) string {
	t.Helper()
	return run(t, f.Node, "cat $(find "+cgroupRoot+" -path '*kubepods*system*' -name cgroup.procs) | sort -n | xargs")
}

// TestFleetCluster: Helm gives the nodes of a cluster their partitions, gives them again, finds a
// node that joins later, upgrades the programs under load, and takes all away. An upgrade that
// fails puts the programs of before back. A node that is off at the end is named.
func TestFleetCluster(t *testing.T) {
	onEach(t, kinds([]string{"trixie"}, "trixie"), func(t *testing.T, flavour string) {
		c := newFleetCluster(t, flavour, []string{"0.1.0", "0.1.1"}, []string{"fleet-a", "fleet-b"})
		section := partition("512Mi", "0-1")
		// The test runs it when there is a new node.
		later := []string{"laterNodes.enabled=true", "laterNodes.schedule=0 0 1 1 *", "monitorArgs={--node-status}"}

		t.Run("installed", func(t *testing.T) {
			if err := c.roll(t.Context(), t, "0.1.0", section, later...); err != nil {
				t.Fatal(err, c.report(t, "node-partition-roll"))
			}
			for _, f := range c.nodes {
				f.active(t)
				c.wantState(t, f.Name, "v0.1.0", "kept", "")
				c.wantMarks(t, f, true)
				want(t, f.Node, servicePIDs, f.before.services)
				want(t, f.Node, f.others, f.untouched)
			}
		})
		t.Run("again", func(t *testing.T) {
			before := make([]still, 0, len(c.nodes))
			for _, f := range c.nodes {
				before = append(before, f.still(t))
			}
			if err := c.roll(t.Context(), t, "0.1.0", section, later...); err != nil {
				t.Fatal(err, c.report(t, "node-partition-roll"))
			}
			for i, f := range c.nodes {
				if after := f.still(t); after != before[i] {
					t.Errorf("%s: %+v\nwas %+v", f.Name, after, before[i])
				}
			}
		})
		t.Run("a node joins later", func(t *testing.T) {
			f := c.join(t, "fleet-c")
			c.wantState(t, f.Name, "", "", "")
			c.added(t)
			f.active(t)
			c.wantState(t, f.Name, "v0.1.0", "kept", "")
		})
		t.Run("a second release", func(t *testing.T) {
			before := c.nodes[0].still(t)
			out, err := c.helmed(t.Context(), "install", "another", c.charts["0.1.1"], "--set=image.repository="+installerImage,
				"--set=section.systemPartition.namespaces={kube-system}")
			if err == nil || !strings.Contains(err.Error(), "node-partition") {
				t.Errorf("%s%v; want that Helm refuses names of the first release", out, err)
			}
			if after := c.nodes[0].still(t); after != before {
				t.Errorf("%+v\nwas %+v", after, before)
			}
		})
		t.Run("an upgrade that fails", func(t *testing.T) {
			// The monitor of the new version alone does not start.
			const dropIn = "/etc/systemd/system/partition-monitor.service.d/60-spoiled.conf"
			const programs = "sha256sum /usr/bin/partition-* /usr/lib/systemd/system-generators/partition-* /usr/lib/systemd/system/partition-*"
			f := c.nodes[0]
			files, processes, services := run(t, f.Node, programs), f.processes(t), run(t, f.Node, servicePIDs)
			run(t, f.Node, "mkdir -p "+path.Dir(dropIn)+
				` && printf "[Service]\nExecStartPre=/bin/sh -c '! `+monitorPath+` --version | grep v0.1.1'\n" >`+dropIn+" && systemctl daemon-reload")
			if err := c.roll(t.Context(), t, "0.1.1", section, append(later, "roll.trial=3m")...); err == nil {
				t.Error("the roll has succeeded")
			}
			f.wentBack(t)
			if stage, message := c.failedIn(t, f.Name); stage != "install" || !strings.Contains(message, monitorUnit+" does not start") {
				t.Errorf("%s has failed: %s; want install, because the monitor does not start", stage, message)
			}
			run(t, f.Node, "rm "+dropIn+" && systemctl daemon-reload")
			wantLines(t, "files", run(t, f.Node, programs), files)
			want(t, f.Node, servicePIDs, services)
			if after := f.processes(t); after != processes {
				t.Errorf("processes of members %s; were %s", after, processes)
			}
			f.active(t)
			want(t, f.Node, monitorPath+" --version | grep -o 'v[0-9.]*'", "v0.1.0")
			c.wantState(t, f.Name, "v0.1.0", "failed", "verify")
			for _, other := range c.nodes[1:] {
				other.active(t)
				c.wantState(t, other.Name, "v0.1.0", "kept", "")
			}
		})
		t.Run("upgraded under load", func(t *testing.T) {
			before, scraped := make([]string, 0, len(c.nodes)), make([]func(), 0, len(c.nodes))
			for _, f := range c.nodes {
				run(t, f.Node, "systemd-run --quiet --unit=load -p CPUQuota=20% sh -c 'while :; do :; done'")
				before = append(before, f.processes(t))
				scraped = append(scraped, scrapes(t, f.Node, 5*time.Second))
			}
			if err := c.roll(t.Context(), t, "0.1.1", section, later...); err != nil {
				t.Fatal(err, c.report(t, "node-partition-roll"))
			}
			for i, f := range c.nodes {
				ready(t, f.Node)
				scraped[i]()
				run(t, f.Node, "systemctl stop load")
				if after := f.processes(t); after != before[i] {
					t.Errorf("%s: processes of members %s; were %s", f.Name, after, before[i])
				}
				f.active(t)
				c.wantState(t, f.Name, "v0.1.1", "kept", "")
				want(t, f.Node, monitorPath+" --version | grep -o 'v[0-9.]*'", "v0.1.1")
			}
		})
		t.Run("uninstalled while a node is off", func(t *testing.T) {
			off := c.nodes[2]
			before := c.rolled(t, off.Name)
			if err := off.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.becomes(t, off.Name+" is not Ready", func(ctx context.Context) (string, error) {
				n, err := c.Client().CoreV1().Nodes().Get(ctx, off.Name, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				for _, condition := range n.Status.Conditions {
					if condition.Type == v1.NodeReady && condition.Status != v1.ConditionTrue {
						return "", nil
					}
				}
				return "Ready", nil
			})
			if out, err := c.helmed(t.Context(), "uninstall", releaseName, "--timeout=40m"); err == nil {
				t.Errorf("it has succeeded: %s", out)
			}
			text := c.report(t, "node-partition-uninstall")
			if !strings.Contains(text, off.Name) || strings.Contains(text, c.nodes[0].Name) {
				t.Errorf("the report names another node than %s: %s", off.Name, text)
			}
			t.Log(text)
			for _, f := range c.nodes[:2] {
				f.asBefore(t)
				c.wantState(t, f.Name, "", "", "")
				c.wantMarks(t, f, false)
			}
			c.wantState(t, off.Name, before.version, "kept", "")
			// The node never comes back.
			if err := c.Client().CoreV1().Nodes().Delete(t.Context(), off.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if out, err := c.helmed(t.Context(), "uninstall", releaseName, "--timeout=40m"); err != nil {
				t.Error(out, err)
			}
		})
	})
}

// wantMarks checks the condition of the Node, and the label with the digest of the section.
func (c *fleetCluster) wantMarks(t *testing.T, f *fleetNode, there bool) {
	t.Helper()
	section := ""
	if there {
		section = run(t, f.Node, "sha256sum "+kubeletconfig.OverridePath+" | cut -c -12")
	}
	c.becomes(t, fmt.Sprintf("the marks of %s are there: %t", f.Name, there), func(ctx context.Context) (string, error) {
		n, err := c.Client().CoreV1().Nodes().Get(ctx, f.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		is := slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == kubeapi.Ready && c.Status == v1.ConditionTrue
		})
		if got := n.Labels[nodelabel.Section]; is != there || got != section {
			return fmt.Sprintf("condition %t, section %q; want %q", is, got, section), nil
		}
		return "", nil
	})
}

// added runs the CronJob that looks for nodes which have joined, once, as "kubectl create job
// --from" does, and waits until it is done.
func (c *fleetCluster) added(t *testing.T) {
	t.Helper()
	cron, err := c.Client().BatchV1().CronJobs(releaseName).Get(t.Context(), "node-partition-add", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := c.Client().BatchV1().Jobs(releaseName)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "node-partition-added", Labels: cron.Spec.JobTemplate.Labels},
		Spec:       cron.Spec.JobTemplate.Spec,
	}
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, job.Name+" has ended", func(ctx context.Context) (string, error) {
		now, err := jobs.Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if now.Status.Succeeded+now.Status.Failed == 0 {
			return fmt.Sprintf("%+v", now.Status), nil
		}
		if now.Status.Failed > 0 {
			t.Error(c.report(t, job.Name))
		}
		return "", nil
	})
}
