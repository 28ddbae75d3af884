//go:build node

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"node-partition.io/node-partition/internal/partition"
	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

const (
	// churnPods counts the pods that each run creates and deletes. A third of them are members.
	churnPods = 100
	// churnAlive is the number of pods at a time.
	churnAlive = 12
	// memberUIDs and userUIDs are the prefixes of the UIDs of members and of other pods, by which the
	// sampler distinguishes them.
	memberUIDs, userUIDs = "aaaa", "5eea"
	// reconcilesEnded counts the passes that have ended.
	reconcilesEnded = "nodepartition_reconcile_duration_seconds_count"
)

// fromEnvironment returns a number in a variable of the environment, or another one without it.
func fromEnvironment(t *testing.T, name string, without int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return number
}

// seedFrom returns the seed in a variable of the environment, or another one without it. It logs
// the seed: a test with the same one does the same.
func seedFrom(t *testing.T, name string) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(name); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", name, seed)
	return seed
}

// TestSoakChurn creates and deletes 100 pods in random order: undisturbed, while the monitor is
// killed, and while systemd is reloaded and re-executed. Then all that the monitor connects to is
// restarted.
func TestSoakChurn(t *testing.T) {
	seed := seedFrom(t, "CHURN_SEED")
	onEach(t, kinds([]string{"trixie", "bookworm", "crio"}, "trixie", "bookworm", "crio"), func(t *testing.T, flavour string) {
		n := monitored(t, flavour, "1Gi")
		c := newChurner(t, n, flavour, seed)
		t.Run("quiet", func(t *testing.T) {
			// Complaints of the kubelet and the runtime that also occur without the monitor are allowed with
			// it.
			run(t, n, "systemctl stop "+monitorUnit)
			before := complaints(t, n, "-1s")
			c.run(t, "without", nil)
			without := complaints(t, n, before.since)
			run(t, n, "systemctl start "+monitorUnit)
			inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)

			mark := complaints(t, n, "-1s")
			found := c.run(t, "quiet", nil)
			if c.placing && len(found.Misplaced) > 0 {
				t.Errorf("misplaced in some of %d samples: %v", found.Samples, found.Misplaced)
			}
			c.settled(t)
			with := complaints(t, n, mark.since)
			for text, count := range with.count {
				switch {
				case without.count[text] > 0:
				case ofCgroups.MatchString(text):
					t.Errorf("%d times, and never without the monitor: %s", count, text)
				default:
					// On a busy node they complain of delays of other programs, which vary.
					t.Logf("%d times, and not without the monitor: %s", count, text)
				}
			}
			t.Logf("%d samples of %d containers; %d kinds of complaints without the monitor, %d with it", found.Samples, found.Containers, len(without.count), len(with.count))
		})
		t.Run("killed", func(t *testing.T) {
			kills := 0
			c.run(t, "killed", func(step, steps int) {
				// Twenty times at random moments, throughout the run.
				if kills < 20 && c.random.IntN(steps-step) < 20-kills {
					run(t, n, "systemctl kill --signal=KILL "+monitorUnit)
					kills++
				}
			})
			t.Logf("killed %d times", kills)
			if kills != 20 {
				t.Errorf("killed %d times, want 20", kills)
			}
			c.settled(t)
		})
		t.Run("reloaded", func(t *testing.T) {
			// With pauses: the runtime's own calls fail while systemd re-executes ("Message recipient
			// disconnected from message bus without replying", runc with systemd 257), and an emulated node
			// would do nothing else. Containers fail to start meanwhile, and the kubelet's back-off grows.
			// The test checks their place and their limits.
			c.patience = 20 * time.Second
			found := c.run(t, "reloaded", func(step, _ int) {
				if step == 0 {
					run(t, n, "systemd-run --unit=reloads sh -c 'while true; do systemctl daemon-reload; sleep 5; systemctl daemon-reexec; sleep 5; done'")
				}
			})
			stopped(t, n, "reloads.service")
			if c.placing && len(found.Misplaced) > 0 {
				t.Errorf("misplaced in some of %d samples: %v", found.Samples, found.Misplaced)
			}
			if found.Unlimited > 0 {
				t.Errorf("the partition had no limit in %d of %d samples", found.Unlimited, found.Samples)
			}
			c.settled(t)
		})
		t.Run("restarted", func(t *testing.T) { c.restarts(t, runtimeUnit(flavour)) })
	})
}

// restarts restarts every service that the monitor connects to, one after the other in random
// order. The next pod is placed.
func (c *churner) restarts(t *testing.T, runtime string) {
	t.Helper()
	n := c.node
	all := []string{
		"systemctl restart " + monitorUnit, "systemctl restart " + runtime, "systemctl restart kubelet.service",
		"systemctl restart dbus.service", "systemctl daemon-reexec", "systemctl daemon-reload",
		"systemctl kill --signal=KILL " + monitorUnit, "systemctl stop " + monitorUnit + "; systemctl restart " + runtime + " dbus.service; systemctl start " + monitorUnit,
	}
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, restart := range all {
		t.Log(restart)
		run(t, n, restart)
		s := spec{namespace: "kube-system", name: fmt.Sprintf("after-%d", i), requests: resources("200m", "8Mi")}
		apply(t, n, s)
		inSlice(t, n, "kube-system", s.name, partition.System, v1.PodQOSBurstable)
		remove(t, n, s)
		noSlicesLeft(t, n)
		becomes(t, n, "systemctl is-active "+monitorUnit, "active")
		for _, source := range []string{"systemd", "kubelet", "runtime"} {
			wantMetric(t, n, `nodepartition_source_connected{source="`+source+`"}`, 1)
		}
	}
}

// churner creates and deletes pods.
type churner struct {
	node    *lab.Node
	random  *rand.Rand
	placing bool
	runs    int
	// patience bounds the wait for a pod that should run before it is deleted. With zero the pod has
	// to run.
	patience time.Duration
}

// newChurner gives a node the sampler, and waits for its member.
func newChurner(t *testing.T, n *lab.Node, flavour string, seed uint64) *churner {
	t.Helper()
	sampler := filepath.Join(t.TempDir(), "sampler")
	if err := testkit.Build("node-partition.io/node-partition/tests/e2e/sampler", sampler); err != nil {
		t.Fatal(err)
	}
	if err := n.CopyTo(t.Context(), lab.File{Path: "/usr/local/bin/sampler", Source: sampler, Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	return &churner{node: n, random: rand.New(rand.NewPCG(seed, 0)), placing: placing(flavour)}
}

// found is the output of the sampler.
type found struct {
	Samples, Containers, Unlimited int
	Misplaced                      map[string]int
}

// run creates and deletes churnPods pods, and returns the findings of the sampler. between is
// called before each step.
func (c *churner) run(t *testing.T, name string, between func(step, steps int)) found {
	t.Helper()
	n := c.node
	c.runs++
	run(t, n, "systemd-run --unit=sampler-"+name+" -p StandardOutput=file:/run/sampler-"+name+" sampler "+memberUIDs)
	var alive []spec
	created := 0
	steps := 2 * churnPods
	begin := time.Now()
	for step := range steps {
		if between != nil {
			between(step, steps)
		}
		if created < churnPods && (len(alive) == 0 || len(alive) < churnAlive && c.random.IntN(2) == 0) {
			s := c.pod(created)
			created++
			if _, err := n.ApplyPod(t.Context(), s.manifest(t)); err != nil {
				t.Fatal(err)
			}
			alive = append(alive, s)
			continue
		}
		// Half of them are deleted in any state. The others have to run first. They are chosen among the
		// older pods: waiting for one that has just been created would take most of the time.
		waits := c.random.IntN(2) == 0
		i := c.random.IntN(len(alive))
		if waits {
			i /= 4
		}
		s := alive[i]
		alive = slices.Delete(alive, i, i+1)
		if waits {
			c.waitPod(t, s)
		}
		if err := n.DeletePod(t.Context(), s.name); err != nil {
			t.Fatal(err)
		}
	}
	if created != churnPods || len(alive) != 0 {
		t.Fatalf("%d pods created, %d left: the test is wrong", created, len(alive))
	}
	eventually(t, n, "all pods gone", func(ctx context.Context) (bool, string, error) {
		pods, err := n.Pods(ctx)
		return err == nil && len(pods) == 3, fmt.Sprint(len(pods)), err
	})
	stopped(t, n, "sampler-"+name+".service")
	t.Logf("%s: %d pods created and deleted in %s", name, churnPods, time.Since(begin).Round(time.Second))
	var seen found
	if err := json.Unmarshal([]byte(run(t, n, "cat /run/sampler-"+name)), &seen); err != nil {
		t.Fatal(err)
	}
	if seen.Samples < 50 || seen.Containers < churnPods/4 {
		t.Fatalf("the sampler saw %d containers in %d samples: it does not work", seen.Containers, seen.Samples)
	}
	return seen
}

// stopped stops a service. This takes more than one attempt while systemd re-executes, because
// systemctl cannot connect then.
func stopped(t *testing.T, n *lab.Node, unit string) {
	t.Helper()
	becomes(t, n, "systemctl stop "+unit+"; systemctl is-active "+unit+" || true", "inactive")
}

// waitPod waits until a pod runs.
func (c *churner) waitPod(t *testing.T, s spec) {
	t.Helper()
	ctx, cancel := t.Context(), func() {}
	if c.patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.patience)
	}
	defer cancel()
	_, err := c.node.WaitPod(ctx, s.namespace, s.name)
	if err != nil && (c.patience == 0 || ctx.Err() == nil) {
		t.Fatal(err)
	}
}

// pod returns the i-th pod of a run. Every third is a member, and their classes differ.
func (c *churner) pod(i int) spec {
	s := spec{namespace: "user", name: fmt.Sprintf("churn-%d-%d", c.runs, i)}
	prefix := userUIDs
	if i%3 == 0 {
		s.namespace, prefix = "kube-system", memberUIDs
	}
	s.uid = types.UID(fmt.Sprintf("%s%04d-0000-4000-8000-%012d", prefix, c.runs, i))
	switch i % 4 {
	case 0:
		s.requests = resources("10m", "8Mi")
	case 1:
		// With a hundredth of a CPU, as the others request, the runtime takes minutes to start it,
		// because its own work is charged to the pod.
		s.requests = resources("150m", "32Mi")
		s.limits = s.requests
	}
	grace := int64(0)
	s.change = func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace }
	return s
}

// settled: every container is in its place, and deleted pods have left nothing behind.
func (c *churner) settled(t *testing.T) {
	t.Helper()
	n := c.node
	noSlicesLeft(t, n)
	inSlice(t, n, "kube-system", "system-agent", partition.System, v1.PodQOSBurstable)
	inSlice(t, n, "default", "user-app", partition.Default, v1.PodQOSBurstable)
	want(t, n, "cat "+systemCgroup+"/memory.max", strconv.Itoa(1<<30))
	want(t, n, "cat "+systemCgroup+"/cpuset.cpus", "0-1")
	eventually(t, n, "the monitor is ready, and no pod misplaced", func(ctx context.Context) (bool, string, error) {
		body, err := n.Get(ctx, monitorURL+"/readyz")
		if err != nil {
			return false, "", err
		}
		report, err := reportOf(ctx, n)
		if err != nil {
			return false, "", err
		}
		for _, pod := range report.Pods {
			if pod.Misplaced > 0 {
				return false, fmt.Sprintf("%+v", pod), nil
			}
		}
		return string(body) == "ok\n" && len(report.Pods) == 3, fmt.Sprintf("%s %d pods", body, len(report.Pods)), nil
	})
	want(t, n, "systemctl list-units --all --plain --no-legend 'partition-cri*' | grep -v "+containerID(t, n, "kube-system", "system-agent")+" || true", "")
}

// said holds the complaints of the kubelet and the runtime, without the parts that vary.
type said struct {
	since string
	count map[string]int
}

var differs = regexp.MustCompile(`(/sys/fs/cgroup)?/kubepods\.slice[^ "\\:,\]]*|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|pod="[^"]*"|churn-[0-9a-z-]*|[0-9]+(\.[0-9]+)?(m|u|µ)?s\b|[0-9]+`)

// ofCgroups matches complaints that the monitor could cause, by the things that it changes.
var ofCgroups = regexp.MustCompile(`(?i)cgroup|slice|scope|systemd|dbus|nri|plugin`)

// complaints collects errors and warnings since a given time.
func complaints(t *testing.T, n *lab.Node, since string) said {
	t.Helper()
	now := run(t, n, "date '+%F %T'")
	seen := said{since: now, count: map[string]int{}}
	out := run(t, n, "journalctl -b -o cat --no-pager --since='"+since+"' -u kubelet -u containerd -u crio | grep -E '^[EF][0-9]{4} |level=(error|fatal)' || true")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "pod"+userUIDs) && !strings.Contains(line, "pod"+memberUIDs) {
			continue // about the cgroup of a pod that the monitor does not touch
		}
		// klog's header has the time and the source line.
		if _, rest, ok := strings.Cut(line, "] "); ok {
			line = rest
		}
		if i := strings.Index(line, "msg="); i >= 0 {
			line = line[i:]
		}
		// The message, without the error that it quotes, which has paths and IDs.
		seen.count[firstWords(differs.ReplaceAllString(line, "#"))]++
	}
	return seen
}

// firstWords returns the words that identify a message.
func firstWords(line string) string {
	const enough = 160
	line = strings.TrimSpace(line)
	if len(line) > enough {
		line = line[:enough]
	}
	return line
}
