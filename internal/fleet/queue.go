package fleet

import "container/heap"

// queue holds the members that wait for their turn, in an order. Each change takes time by the
// logarithm of their number.
type queue struct {
	members []*member
	// before is the order.
	before func(a, b *member) bool
}

// byPool is the order of pools, and of names within a pool.
func byPool(a, b *member) bool {
	if a.pool != b.pool {
		return a.pool < b.pool
	}
	return a.node.Name < b.node.Name
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(q.members) }

func (q *queue) Less(i, j int) bool { return q.before(q.members[i], q.members[j]) }

func (q *queue) Swap(i, j int) {
	q.members[i], q.members[j] = q.members[j], q.members[i]
	q.members[i].place, q.members[j].place = i, j
}

func (q *queue) Push(x any) {
	m := x.(*member) // add alone calls it
	m.place = len(q.members)
	q.members = append(q.members, m)
}

func (q *queue) Pop() any {
	last := len(q.members) - 1
	m := q.members[last]
	q.members[last] = nil
	q.members = q.members[:last]
	m.place = nowhere
	return m
}

// nowhere is the place of a member that does not wait.
const nowhere = -1

func (q *queue) add(m *member) { heap.Push(q, m) }

func (q *queue) remove(m *member) {
	if m.place != nowhere {
		heap.Remove(q, m.place)
	}
}
