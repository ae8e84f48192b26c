package demo

import (
	"encoding/json"
	"fmt"
	"sort"
)

// delivery is one call of a producer.
type delivery struct {
	event
	producer int
}

// plan is what the producers deliver, in order.
type plan struct {
	deliveries []delivery
	again      int // of them, the demo's own redeliveries
	changed    int // of those, with a changed body
}

// changedShare is how many of a hundred redeliveries come with a changed body.
const changedShare = 10

// makePlan adds redeliveries to the events and deals all to the producers, so that deliveries of one window key are on different
// producers and race where they are close together.
func makePlan(in input, percent, producers int) (plan, error) {
	type placed struct {
		event
		at, order int
	}
	var p plan
	all := make([]placed, 0, len(in.events)+len(in.events)*percent/100)
	for i, e := range in.events {
		all = append(all, placed{e, i, len(all)})
		if !shouldRedeliver(e, percent) {
			continue
		}
		id := []byte(e.windowKey)
		again := e
		// At once, as when a sender gives up too early; soon; or much later.
		gap := []int{0, 0, 1 + int(dice("gap", id)%20), 50 + int(dice("gap", id)%1000)}[dice("when", id)%4]
		if dice("changed", id)%100 < changedShare {
			body, err := change(e.payload)
			if err != nil {
				return plan{}, err
			}
			again.payload = body
			gap = max(gap, 20)
			p.changed++
		}
		all = append(all, placed{again, i + gap, len(all)})
		p.again++
	}
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].at != all[j].at {
			return all[i].at < all[j].at
		}
		return all[i].order < all[j].order
	})
	seen := make(map[string]int)
	for i, a := range all {
		producer := i % producers
		if a.windowKey != "" {
			producer = int((dice("producer", []byte(a.windowKey)) + uint64(seen[a.windowKey])) % uint64(producers))
			seen[a.windowKey]++
		}
		p.deliveries = append(p.deliveries, delivery{a.event, producer})
	}
	return p, nil
}

func shouldRedeliver(e event, percent int) bool {
	return e.windowKey != "" && dice("redeliver", []byte(e.windowKey))%100 < uint64(percent)
}

// change makes another body of an object.
func change(payload []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, fmt.Errorf("change a body: %w", err)
	}
	members["changed_by_demo"] = json.RawMessage("true")
	return json.Marshal(members)
}
