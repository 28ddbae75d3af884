package cluster

import (
	"strings"
	"time"

	"node-partition.io/node-partition/internal/kubeapi"
	"node-partition.io/node-partition/internal/node"
	"node-partition.io/node-partition/internal/partition"
)

// known holds the last answer about a namespace, and the requests since.
type known struct {
	node.Namespace
	used     time.Time     // when a membership last depended on it
	tried    time.Time     // the time of the last request
	missed   time.Time     // when the API server last did not answer for another namespace
	pause    time.Duration // after a failed request; zero after an answer
	retry    kubeapi.Retry
	interval time.Duration // to the next request after an answer
	wanted   bool          // a new pod, or a new monitor, needs a younger answer
	done     chan struct{} // closed at the end of the next request; nil while no sandbox waits
}

// want asks for a younger answer if the last one is not fresh.
func (k *known) want(now time.Time) {
	//guard: a new pod needs an answer of the last minute
	k.wanted = k.wanted || now.Sub(k.Heard) >= fresh
}

// counts reports whether there is an answer that counts: the last one, unless a younger one is to
// come. It counts if the API server was asked for that and did not answer.
func (k *known) counts() bool { return !k.Heard.IsZero() && (!k.wanted || k.pause > 0) }

// allows returns whether the namespace allows a workload type.
func (k *known) allows(workload string, now time.Time) partition.Refusal {
	answer := k.Allows(workload, now)
	//guard: an old answer gives no right before the API server is asked
	if answer == "" && !k.counts() {
		return partition.NamespaceUnknown // the answer is to come
	}
	return answer
}

// since returns the time since the last attempt.
func (k *known) since(now time.Time) time.Duration {
	return min(now.Sub(k.tried), now.Sub(k.missed))
}

// awaited reports whether a request is due because no answer counts.
func (k *known) awaited(now time.Time) bool { return !k.counts() && k.since(now) >= k.pause }

// due reports whether the namespace is to be asked for.
func (k *known) due(now time.Time) bool {
	since := k.since(now)
	switch {
	case now.Sub(k.used) >= inUse:
		return false
	case k.pause > 0:
		return since >= k.pause
	}
	return !k.counts() || since >= k.interval
}

// answer takes an answer. The interval grows while the answers are the same.
func (k *known) answer(uid string, types []string, now time.Time) {
	before := k.view()
	before.counts = true // as after any answer
	k.Namespace = k.After(uid, types, now)
	//guard: after an answer the next one has to be fresh again
	k.tried, k.pause, k.retry, k.wanted = now, 0, kubeapi.Retry{}, false
	if k.view() == before {
		//guard: a namespace that says the same is read less often
		k.interval = min(max(refresh, 2*k.interval), maxRefresh)
	} else {
		//guard: a namespace that says something else is read again soon
		k.interval = refresh
	}
	k.release()
}

// without takes the reason why there is no answer, and reports whether it is another one than
// before. asked means that the namespace was asked for, and not only another one.
func (k *known) without(err error, asked bool, now time.Time) bool {
	//guard: a namespace that alone has no answer holds up no other
	if k.missed = now; asked {
		k.tried = now
	}
	why := reason(err)
	//guard: an outage takes back no refusal of the API server
	if k.Why == partition.Forbidden && !k.Heard.IsZero() {
		why = k.Why // an outage takes back no answer
	}
	other := k.Why != why
	k.Why = why
	//guard: a request that fails is not repeated at once
	k.pause = min(k.retry.After(err), maxRefresh) // a right that is granted counts soon
	k.release()
	return other
}

// release lets those go on who wait for an answer.
func (k *known) release() {
	if k.done != nil {
		close(k.done)
		k.done = nil
	}
}

// view holds what the answers for pods follow from.
type view struct {
	counts, heard       bool
	uid, types, doubted string
	why                 partition.Refusal
}

func (k *known) view() view {
	return view{
		counts: k.counts(), heard: !k.Heard.IsZero(), uid: k.UID, why: k.Why,
		types: strings.Join(k.Types, ","), doubted: strings.Join(k.Doubted, ","),
	}
}
