package fleet

import "container/heap"

// queue holds the members that wait for their turn, in the order of their pools and of their names.
// Each change takes time by the logarithm of their number.
type queue []*member

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(*q) }

func (q *queue) Less(i, j int) bool {
	a, b := (*q)[i], (*q)[j]
	if a.pool != b.pool {
		return a.pool < b.pool
	}
	return a.node.Name < b.node.Name
}

func (q *queue) Swap(i, j int) {
	(*q)[i], (*q)[j] = (*q)[j], (*q)[i]
	(*q)[i].place, (*q)[j].place = i, j
}

func (q *queue) Push(x any) {
	m := x.(*member) // add alone calls it
	m.place = len(*q)
	*q = append(*q, m)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
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
