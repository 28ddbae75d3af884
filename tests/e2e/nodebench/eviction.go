package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"node-partition.io/node-partition/tests/e2e/nodebench/figure"
	"node-partition.io/node-partition/tests/lab"
)

// evictionFlavour is the kind of node on which evictions are measured. Only the kernel and the
// kubelet matter.
const evictionFlavour = "trixie"

// leakRate is the growth of the pods that are evicted by the monitor and by the kubelet.
const leakRate = "20Mi"

// evictionSection returns a partition with that threshold.
func evictionSection(threshold string) string {
	return "systemPartition:\n  memoryLimit: 1Gi\n  namespaces: [kube-system]\n  evictionHard: {memory.available: " + threshold + "}\n"
}

// limit is the limit of the partition in bytes.
const limit = 1 << 30

// speeds lists growths, each with the margin that should suffice for it.
var speeds = []struct{ rate, margin string }{{"5Mi", "32Mi"}, {"50Mi", "32Mi"}, {"200Mi", "64Mi"}, {"500Mi", "128Mi"}}

// evictions is a node on which evictions are measured.
type evictions struct {
	*lab.Node
	control *lab.ControlPlane
	config  string // of the kubelet, unchanged
	pods    int
}

// eviction measures the time from a threshold to the signal that ends a process: for the monitor,
// and for the kubelet's own eviction at node level on the same node with the same load. It also
// counts the kernel's kills at each of speeds.
func (b *bench) eviction(ctx context.Context) (all []measured, err error) {
	control, err := lab.StartControlPlane(ctx, b.progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	config, err := lab.KubeletConfig(evictionSection("64Mi"))
	if err != nil {
		return nil, err
	}
	n, err := lab.Start(ctx, lab.Options{
		CPUs: 4, KernelArgs: []string{fineTimers},
		Flavour: evictionFlavour, ControlPlane: control, NoPods: true, Progress: b.progress,
		Files: b.files(config),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			dir := filepath.Join(os.TempDir(), "nodebench-"+n.Name)
			err = errors.Join(fmt.Errorf("eviction: %w; what the node was like is in %s", err, dir), n.Collect(ctx, dir))
		}
		err = errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}()
	if err := n.WaitReady(ctx); err != nil {
		return nil, err
	}
	text, err := n.Run(ctx, "cat "+lab.KubeletConfigPath)
	if err != nil {
		return nil, err
	}
	e := &evictions{Node: n, control: control, config: text}
	add := func(f figure.Figure) {
		all = append(all, measured{evictionFlavour, f})
		b.progress(fmt.Sprintf("  %s: %s %s %s", strings.TrimSpace(f.Name), number(f.Value), f.Unit, f.Note))
	}
	for _, speed := range speeds {
		b.progress("eviction: growth of " + speed.rate + "/s")
		f, err := e.speed(ctx, speed.rate, speed.margin, b.evictions)
		if err != nil {
			return all, err
		}
		add(f)
	}
	b.progress("eviction: by the monitor")
	ours, err := e.byMonitor(ctx, b.evictions)
	if err != nil {
		return all, err
	}
	b.progress("eviction: by the kubelet")
	theirs, err := e.byKubelet(ctx, b.evictions)
	if err != nil {
		return all, err
	}
	own, kubelet := millis(ours), millis(theirs)
	add(
		figure.Figure{
			Name:  "from the threshold to the signal that ends the victim, to the kubelet's own eviction",
			Value: own / kubelet,
			Limit: new(0.05),
		},
	)
	add(figure.Figure{Name: "  by the monitor", Value: own, Unit: "ms"})
	add(figure.Figure{Name: "  by the kubelet", Value: kubelet, Unit: "ms"})
	return all, nil
}

func millis(all []watched) float64 {
	values := make([]float64, 0, len(all))
	for _, w := range all {
		values = append(values, w.Millis)
	}
	return figure.Median(values)
}

// watched is the output of onnode watch.
type watched struct {
	Millis, Growth float64
	Killed         uint64
}

// speed returns how many of some evictions came too late at a growth: the kernel killed.
func (e *evictions) speed(ctx context.Context, rate, margin string, times int) (figure.Figure, error) {
	if err := e.configure(ctx, evictionSection(margin)); err != nil {
		return figure.Figure{}, err
	}
	bytes, err := parseMebi(margin)
	if err != nil {
		return figure.Figure{}, err
	}
	speed, err := parseMebi(rate)
	if err != nil {
		return figure.Figure{}, err
	}
	// The pod starts five seconds of growth below the threshold.
	start := fmt.Sprintf("%dMi", max(8, (int64(limit)-int64(bytes)-5*int64(speed))>>20))
	inTime := 0
	var all []watched
	var growth []float64
	for range times {
		w, err := e.leak(ctx, "kube-system", start, rate, fmt.Sprintf("-threshold %d", bytes))
		if err != nil {
			return figure.Figure{}, err
		}
		if w.Killed == 0 {
			inTime++
		}
		all, growth = append(all, w), append(growth, w.Growth/(1<<20))
	}
	return figure.Figure{
		Name: fmt.Sprintf(
			"killed by the kernel, of %d, growth of %s/s, %s free",
			times, rate, margin,
		),
		Value: float64(times - inTime),
		Note:  fmt.Sprintf("median %.1f ms; it grew by %.0f MiB/s", millis(all), figure.Median(growth)),
	}, nil
}

func (e *evictions) byMonitor(ctx context.Context, times int) ([]watched, error) {
	if err := e.configure(ctx, evictionSection("64Mi")); err != nil {
		return nil, err
	}
	var all []watched
	for range times {
		w, err := e.leak(ctx, "kube-system", "700Mi", leakRate, fmt.Sprintf("-threshold %d", 64<<20))
		if err != nil {
			return all, err
		}
		all = append(all, w)
	}
	return all, nil
}

// byKubelet gives the kubelet a threshold that the node crosses after a user pod has grown for some
// seconds.
func (e *evictions) byKubelet(ctx context.Context, times int) ([]watched, error) {
	if _, err := e.Run(ctx, "systemctl stop "+unit); err != nil {
		return nil, err
	}
	out, err := e.Run(ctx, "awk '/^MemAvailable:/ { print $2 }' /proc/meminfo")
	if err != nil {
		return nil, err
	}
	kib, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return nil, err
	}
	threshold := kib<<10 - 600<<20
	config := e.config + fmt.Sprintf(
		"evictionHard: {memory.available: \"%d\"}\nevictionPressureTransitionPeriod: 1s\n",
		threshold,
	)
	if err := e.WriteFile(ctx, lab.KubeletConfigPath, []byte(config), 0o644); err != nil {
		return nil, err
	}
	if _, err := e.Run(ctx, "systemctl restart kubelet.service"); err != nil {
		return nil, err
	}
	var all []watched
	for range times {
		if err := e.noPressure(ctx); err != nil {
			return all, err
		}
		w, err := e.leak(ctx, "default", "400Mi", leakRate, fmt.Sprintf("-node -threshold %d", threshold))
		if err != nil {
			return all, err
		}
		all = append(all, w)
	}
	return all, nil
}

// noPressure waits until the kubelet reports that the node has memory.
func (e *evictions) noPressure(ctx context.Context) error {
	return e.Eventually(ctx, "no memory pressure", func(ctx context.Context) (bool, string, error) {
		node, err := e.control.Client().CoreV1().Nodes().Get(ctx, e.Hostname, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		ready, pressure := v1.ConditionFalse, v1.ConditionTrue
		for _, c := range node.Status.Conditions {
			switch c.Type {
			case v1.NodeMemoryPressure:
				pressure = c.Status
			case v1.NodeReady:
				ready = c.Status
			}
		}
		return ready == v1.ConditionTrue && pressure == v1.ConditionFalse, fmt.Sprint(ready, pressure), nil
	})
}

// configure changes the section, and makes both programs follow it.
func (e *evictions) configure(ctx context.Context, section string) error {
	file, err := lab.KubeletConfig(section)
	if err != nil {
		return err
	}
	if err := e.CopyTo(ctx, file); err != nil {
		return err
	}
	_, err = e.Run(ctx, "systemctl daemon-reload && systemctl reload "+unit)
	return err
}

// leak makes a pod grow, and returns what onnode watch measured when it was evicted.
func (e *evictions) leak(ctx context.Context, namespace, start, rate, flags string) (w watched, err error) {
	e.pods++
	pods := e.control.Client().CoreV1().Pods(namespace)
	pod := systemPod(fmt.Sprintf("leaker-%d", e.pods))
	pod.Namespace = namespace
	pod.Spec.NodeName = e.Hostname
	pod.Spec.Containers[0].Image = lab.PodtoolImage
	pod.Spec.Containers[0].Command = []string{"/podtool", "leak", "20s", start, rate, "3Gi"}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return w, err
	}
	created, err := e.control.WaitPod(ctx, namespace, pod.Name)
	if err != nil {
		return w, err
	}
	_, id, _ := strings.Cut(created.Status.ContainerStatuses[0].ContainerID, "://")
	// Some minutes suffice even for the kubelet.
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := e.Run(limited, onNode+" watch -container "+id+" "+flags)
	if err != nil {
		return w, err
	}
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		return w, err
	}
	grace := int64(0)
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		return w, err
	}
	return w, e.Eventually(ctx, pod.Name+" gone", func(ctx context.Context) (bool, string, error) {
		running, err := e.Pods(ctx)
		return err == nil && len(running) == 0, fmt.Sprint(len(running)), err
	})
}

func parseMebi(text string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "Mi"), 10, 64)
	return n << 20, err
}
