package evict

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"node-partition.io/node-partition/internal/partition"
)

// kubeletScore returns the result of GetContainerOOMScoreAdjust (pkg/kubelet/qos/policy.go,
// v1.37.0) for a container that is no sidecar, in a pod without own resources.
func kubeletScore(class v1.PodQOSClass, isNodeCritical bool, request, capacity int64) int {
	switch {
	case isNodeCritical, class == v1.PodQOSGuaranteed:
		return -997
	case class == v1.PodQOSBestEffort:
		return 1000
	}
	return int(min(max(1000-1000*request/capacity, 3), 999))
}

func TestEstimateRequest(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	capacities := []int64{1 << 30, 2_040_000_001, 4 << 30, 16_777_216_999, 64 << 30, 1 << 40, 6<<40 + 4095}
	for _, capacity := range capacities {
		for range 5000 {
			request := random.Int64N(capacity + capacity/10)
			if random.IntN(2) == 0 {
				request = random.Int64N(capacity/100) + 1 // most are small
			}
			score := kubeletScore(v1.PodQOSBurstable, false, request, capacity)
			got := int64(EstimateRequest(v1.PodQOSBurstable, score, 0, uint64(capacity)))
			// Capacity is cut to whole bytes first.
			off, most := got-min(request, capacity), capacity/2000+2000
			switch score {
			case 999: // a request below two thousandths leaves nothing
				if got != 0 || request >= capacity/500+1 {
					t.Fatalf("%d of %d: estimated %d by the score of no request", request, capacity, got)
				}
				continue
			case 3: // all above 997 thousandths
				most = capacity * 3 / 1000
			}
			if off > most || -off > most {
				t.Fatalf("%d of %d, score %d: estimated %d, which is off by %d, more than %d", request, capacity, score, got, off, most)
			}
			if other := int64(EstimateRequest(v1.PodQOSBurstable, score-1, 0, uint64(capacity))); other <= got {
				t.Fatalf("a score of %d of %d is %d, and one less %d, want more", score, capacity, got, other)
			}
		}
	}
}

// TestEstimateScoreBounds has the scores between which a burstable pod's request is known.
func TestEstimateScoreBounds(t *testing.T) {
	const capacity, thousandth = 2_000_000, 2000
	for score, want := range map[int]uint64{
		1000: 0,                // best effort
		999:  0,                // no request, or next to none: the two have the same score
		998:  2.5 * thousandth, // the first that has a request: the middle of two and three thousandths
		3:    997.5 * thousandth,
		-997: 0, // node-critical: its request is unknown
		-998: 0, // below what the kubelet gives to any container
	} {
		if got := EstimateRequest(v1.PodQOSBurstable, score, 0, capacity); got != want {
			t.Errorf("score %d is a request of %d, want %d", score, got, want)
		}
		want := int32(0)
		if score == -997 {
			want = partition.NodeCritical
		}
		if got := EstimatePriority(v1.PodQOSBurstable, score); got != want {
			t.Errorf("score %d is a priority of %d, want %d", score, got, want)
		}
	}
}

func TestEstimateOwner(t *testing.T) {
	for pod, want := range map[string]string{
		"node-exporter-x7k2p":             "node-exporter",              // DaemonSet
		"csi-driver-6q8zn":                "csi-driver",                 // DaemonSet
		"coredns-76f75df574-4xq9l":        "coredns",                    // Deployment
		"metrics-server-557ff575fb-kvzrc": "metrics-server",             // Deployment
		"postgres-0":                      "postgres-0",                 // StatefulSet
		"postgres-12345":                  "postgres-12345",             // 1 and 3 are not generated
		"migrate-tzx9h":                   "migrate",                    // Job
		"indexed-3-bq4nl":                 "indexed-3",                  // indexed Job
		"backup-29301455-wv2dk":           "backup-29301455",            // CronJob: each Job on its own
		"etcd-node-1":                     "etcd-node-1",                // static pods: the node's name
		"kube-apiserver-master":           "kube-apiserver-master",      //
		"kube-scheduler-ip-10-0-3-1":      "kube-scheduler-ip-10-0-3-1", //
		"single":                          "single",                     //
		"-x7k2p":                          "-x7k2p",                     // nothing would be left
		"a-x7k2p":                         "a",                          // one letter is something
		"web-x7k2":                        "web-x7k2",                   // a suffix has five letters
		"web-x7k2px":                      "web-x7k2px",                 //
		"web-56789-x7k2p":                 "web-56789",                  // a hash has six at least
		"web-567894-x7k2p":                "web",                        //
		"web-5678945678-x7k2p":            "web",                        // and ten at most
		"web-56789456789-x7k2p":           "web-56789456789",            //
		"web-567894":                      "web-567894",                 // a hash without a suffix
	} {
		if got := EstimateOwner("kube-system", pod); got != "kube-system/"+want {
			t.Errorf("owner of %s is %s, want kube-system/%s", pod, got, want)
		}
	}
	if EstimateOwner("a", "x-x7k2p") == EstimateOwner("b", "x-x7k2p") {
		t.Error("two namespaces have the same owner")
	}
}
