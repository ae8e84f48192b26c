package integration_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pgqueue/pgqueue/gen"
)

// batchItem is a request as an item of enqueue_many. Unique stands for what makes enqueue_unique another function than enqueue.
type batchItem struct {
	request

	Unique bool
}

func (i batchItem) MarshalJSON() ([]byte, error) {
	members := map[string]any{"task_name": i.TaskName}
	if i.Payload != nil {
		members["payload"] = i.Payload
	}
	if i.Metadata != nil {
		members["metadata"] = i.Metadata
	}
	if i.ResourceKeys != nil {
		members["resource_keys"] = i.ResourceKeys
	}
	if i.RunAfter != nil {
		members["run_after"] = i.RunAfter
	}
	if i.Unique {
		members["unique"] = true
	}
	for name, text := range map[string]*string{"queue": i.Queue, "active_key": i.ActiveKey, "window_key": i.WindowKey} {
		if text != nil {
			members[name] = *text
		}
	}
	for name, number := range map[string]*int{"priority": i.Priority, "max_attempts": i.MaxAttempts} {
		if number != nil {
			members[name] = *number
		}
	}
	for name, length := range map[string]*time.Duration{"delay": i.Delay, "window_length": i.WindowLength, "backoff": i.Backoff,
		"max_backoff": i.MaxBackoff, "timeout": i.Timeout, "lease": i.Lease} {
		if length != nil {
			members[name] = gen.Interval(*length)
		}
	}
	return json.Marshal(members)
}

type batchOption func(*gen.EnqueueManyParams)

func continueOnConflict(p *gen.EnqueueManyParams) { p.ContinueOnConflict = ptr(true) }

func noWait(p *gen.EnqueueManyParams) { p.Wait = ptr(false) }

func (e *env) batch(all any, options ...batchOption) gen.EnqueueManyParams {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	p := gen.EnqueueManyParams{Items: text, Namespace: &e.ns}
	for _, option := range options {
		option(&p)
	}
	return p
}

// enqueueMany wants an outcome for each item, in their order.
func (e *env) enqueueMany(t testing.TB, db gen.DB, all []batchItem, options ...batchOption) []gen.Receipt {
	t.Helper()
	receipts, err := gen.EnqueueMany(t.Context(), db, e.batch(all, options...))
	if err != nil {
		t.Fatalf("enqueue_many: %v", err)
	}
	if len(receipts) != len(all) {
		t.Fatalf("%d receipts of %d items", len(receipts), len(all))
	}
	for i, r := range receipts {
		if r.Ordinal != i+1 {
			t.Fatalf("receipt %d has ordinal %d", i+1, r.Ordinal)
		}
	}
	return receipts
}

// actives is one item for each key.
func (e *env) actives(keys ...string) []batchItem {
	all := make([]batchItem, len(keys))
	for i, key := range keys {
		all[i] = batchItem{request: e.active(key)}
	}
	return all
}

// bucketLocks counts the locks with which the batches of this session's transaction keep their order. The set-based path takes
// shared ones, so they also tell which way a batch went.
func bucketLocks(t testing.TB, db gen.DB) (shared, exclusive int) {
	t.Helper()
	const count = `select count(*) from pg_catalog.pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and mode = $1::text`
	return value[int](t, db, count, "ShareLock"), value[int](t, db, count, "ExclusiveLock")
}

// keysInOrder are so many keys of task "send" in the order of their hashes, in which batches take them.
func keysInOrder(t testing.TB, db gen.DB, n int) []string {
	t.Helper()
	return value[[]string](t, db, `select array_agg(k order by pgqueue._lock_key('send', k)) from generate_series(1, $1::integer) g,
		lateral (select 'k' || g) s (k)`, n)
}

func ids(receipts []gen.Receipt) []uuid.UUID {
	all := make([]uuid.UUID, len(receipts))
	for i, r := range receipts {
		if r.TaskID != nil {
			all[i] = *r.TaskID
		}
	}
	return all
}
