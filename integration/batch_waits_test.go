package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// B1, A16: a batch waits for a key that another transaction holds uncommitted. Commit: REUSED; rollback: CREATED.
func TestB1_A16_WaitsForAnUncommittedEnqueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, path := range []string{"set-based", "exact"} {
		for _, end := range []string{"commit", "rollback"} {
			t.Run(path+"/"+end, func(t *testing.T) {
				e := e.scope()
				first := e.session(t, readCommitted)
				exec(t, first, "begin")
				id := wantCreated(t, enqueue(t, first, e.active("k")))
				all := e.actives("a", "k", "b", "k")
				if path == "exact" {
					all = append(all, batchItem{request: e.window("w", time.Hour)})
				}
				done := e.sendBatch(t, e.session(t, readCommitted), all)
				exec(t, first, end)
				got := wait(t, done)
				if got.err != nil {
					t.Fatal(got.err)
				}
				if end == "rollback" {
					id = wantCreated(t, got.receipts[1])
				} else {
					wantReused(t, got.receipts[1], id, gen.DuplicateMatchActive)
				}
				wantReused(t, got.receipts[3], id, gen.DuplicateMatchActive)
				checkInvariants(t, e.pool)
			})
		}
	}
}

// B2, A16: lock_timeout and wait => false bound a batch's waits for keys, single enqueues', other batches', and also where batches
// wait for each other for the sake of their order. The race fails the batch with nothing written, or stays with the item.
func TestB2_A16_BoundedWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	// What another transaction has done and not committed.
	holders := map[string]func(t *testing.T, e *env, conn *pgx.Conn){
		"single":          func(t *testing.T, e *env, conn *pgx.Conn) { wantCreated(t, enqueue(t, conn, e.active("k"))) },
		"set-based batch": func(t *testing.T, e *env, conn *pgx.Conn) { e.enqueueMany(t, conn, e.actives("k", "other")) },
		"exact batch": func(t *testing.T, e *env, conn *pgx.Conn) {
			e.enqueueMany(t, conn, append(e.actives("k"), batchItem{request: e.window("other", time.Hour)}))
		},
	}
	for name, hold := range holders {
		for _, level := range levels {
			t.Run(name+"/"+level, func(t *testing.T) {
				e := e.scope()
				first := e.session(t, readCommitted)
				exec(t, first, "begin")
				hold(t, e, first)
				rows := e.rows(t)
				all := append(e.actives("a", "k"), batchItem{request: e.window("w", time.Hour)})

				bounded := e.session(t, level, pgtest.RuntimeParam("lock_timeout", "50ms"))
				_, err := gen.EnqueueMany(t.Context(), bounded, e.batch(all))
				failed := wantRace(t, err, "lock_timeout")
				if !strings.Contains(failed.Message, "canceling statement due to lock timeout") {
					t.Errorf("the message is %q", failed.Message)
				}
				exec(t, bounded, "begin")
				got := e.enqueueMany(t, bounded, all, continueOnConflict)
				wantRefusal(t, got[1], "40001")
				exec(t, bounded, "rollback")

				// The session has no bound of its own: only wait => false ends this.
				atOnce := e.session(t, level)
				_, err = gen.EnqueueMany(t.Context(), atOnce, e.batch(all, noWait))
				wantRace(t, err, "busy")
				if after := e.rows(t); after != rows {
					t.Errorf("%d rows were written", after-rows)
				}
				exec(t, atOnce, "begin")
				got = e.enqueueMany(t, atOnce, all, noWait, continueOnConflict)
				wantCreated(t, got[0])
				wantRefusal(t, got[1], "40001")
				wantCreated(t, got[2])
				if bound := value[string](t, atOnce, "select current_setting('lock_timeout')"); bound != "0" {
					t.Errorf("lock_timeout is %s afterwards", bound)
				}
				exec(t, atOnce, "commit")
				exec(t, first, "commit")
				checkInvariants(t, e.pool)
			})
		}
	}
}

// B1, I1-I3: batches at REPEATABLE READ and SERIALIZABLE: a holder that is pending in the snapshot answers; a key that was taken or
// a holder that ended after it is a race, of the whole batch or of its item, which leaves the transaction usable.
func TestB1_I3_StricterLevels(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, level := range levels[1:] {
		t.Run(level, func(t *testing.T) {
			e := e.scope()
			held := e.create(t, e.active("held"))
			ends := e.create(t, e.active("ends"))
			conn := e.session(t, level)
			exec(t, conn, "begin")
			value[int](t, conn, "select 1 from (select count(*) from pgqueue.task) c")
			e.create(t, e.active("taken"))
			e.discard(t, e.pool, ends)
			all := e.actives("held", "taken", "new", "ends", "new")
			all = append(all, batchItem{request: request{TaskName: "plain"}})

			exec(t, conn, "savepoint s")
			_, err := gen.EnqueueMany(t.Context(), conn, e.batch(all))
			wantRace(t, err, "key_taken")
			exec(t, conn, "rollback to savepoint s")
			got := e.enqueueMany(t, conn, all, continueOnConflict)
			wantReused(t, got[0], held, gen.DuplicateMatchActive)
			wantRefusal(t, got[1], "40001")
			wantRefusal(t, got[3], "40001")
			wantReused(t, got[4], wantCreated(t, got[2]), gen.DuplicateMatchActive)
			wantCreated(t, got[5])
			exec(t, conn, "commit")
			checkInvariants(t, e.pool)
		})
	}
}

// B1, A6: one notification for each queue of a batch, in which something was created while somebody waits for it, and none else.
func TestB1_A6_Notifications(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	listener := e.session(t, readCommitted)
	exec(t, listener, `listen "pgqueue:`+e.ns+`"`)
	inQueue := func(queue string, keys ...string) []batchItem {
		all := e.actives(keys...)
		for i := range all {
			all[i].Queue = &queue
		}
		return all
	}
	// Each batch runs after a sentinel, whose notification bounds those of the batch before.
	expect := func(what string, want []string, all ...[]batchItem) {
		t.Helper()
		var flat []batchItem
		for _, part := range all {
			flat = append(flat, part...)
		}
		e.enqueueMany(t, e.pool, flat)
		exec(t, e.pool, "select pg_notify($1::text, 'sentinel')", "pgqueue:"+e.ns)
		seen := map[string]int{}
		for {
			got, err := listener.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Payload == "sentinel" {
				break
			}
			seen[got.Payload]++
		}
		for _, queue := range want {
			if seen[queue] != 1 {
				t.Errorf("%s: queue %s was notified %d times", what, queue, seen[queue])
			}
			delete(seen, queue)
		}
		if len(seen) > 0 {
			t.Errorf("%s: also notified: %v", what, seen)
		}
	}
	waits := func(queue, until string) {
		t.Helper()
		exec(t, e.pool, `insert into pgqueue.queue (namespace, name, waiting_until) values ($1::text, $2::text, now() + $3::text::interval)`, e.ns, queue, until)
	}
	expect("nobody waits", nil, inQueue("q", "a", "b"), inQueue("r", "c"))
	waits("q", "1 hour")
	waits("r", "1 hour")
	waits("s", "-1 second")
	expect("duplicates", nil, inQueue("q", "a", "b"), inQueue("r", "c"))
	expect("created", []string{"q", "r"}, inQueue("q", "d", "e", "d"), inQueue("r", "f"), inQueue("s", "g"))
	expect("some of it", []string{"r"}, inQueue("q", "d"), inQueue("r", "h"))
	// The duplicate asks for q, its holder is in r.
	expect("elsewhere", nil, inQueue("q", "h"))
	exact := batchItem{request: e.window("w", time.Hour)}
	exact.Queue = ptr("q")
	expect("exact", []string{"q"}, []batchItem{exact, exact})
	expect("exact duplicates", nil, []batchItem{exact})
}
