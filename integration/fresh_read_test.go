package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// I4: at REPEATABLE READ and SERIALIZABLE, a holder that changed after the snapshot is looked at once more on another connection:
// pending still is REUSED, anything else is the race.
func TestFreshRead(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, c := range map[string]struct {
			change string
			race   bool
		}{
			"changed":  {`update pgqueue.task set priority = 9`, false},
			"claimed":  {`select pgqueue.claim(pgqueue.open_lease('w'))`, false},
			"settled":  {`select pgqueue.discard(id) from pgqueue.task`, true},
			"deleted":  {`delete from pgqueue.task`, true},
			"moved on": {`select pgqueue.discard(id) from pgqueue.task; select pgqueue.enqueue_unique('t', active_key => 'k')`, true},
		} {
			t.Run(string(level)+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				held, tx := h.snapshot(t, level)
				h.exec(t, c.change)
				receipt, err := h.EnqueueTx(t.Context(), tx, keyed)
				switch {
				case c.race && !errors.Is(err, pgqueue.ErrRace):
					t.Errorf("receipt %+v, %v; want the race", receipt, err)
				case !c.race && (err != nil || receipt.Created() || receipt.TaskID != held.TaskID):
					t.Errorf("receipt %+v, %v; want task %s", receipt, err, held.TaskID)
				case name == "changed" && receipt.Priority != 9:
					t.Errorf("receipt %+v is not the fresh row", receipt)
				}
				if _, err := tx.Exec(t.Context(), "select 1"); err != nil {
					t.Errorf("the transaction is not usable: %v", err)
				}
			})
		}
	}
}

var keyed = pgqueue.Request{TaskName: "t", ActiveKey: "k"}

// snapshot enqueues the holder, and begins a transaction that has seen it pending.
func (h *house) snapshot(t *testing.T, level pgx.TxIsoLevel) (pgqueue.Receipt, pgx.Tx) {
	t.Helper()
	held, err := h.Enqueue(t.Context(), keyed)
	if err != nil || !held.Created() {
		t.Fatalf("receipt %+v, %v", held, err)
	}
	tx, err := h.db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select count(*) from pgqueue.task"); err != nil {
		t.Fatal(err)
	}
	return held, tx
}

// I4: a fresh read gives up in bounded time: when the pool has no connection left, and when a table lock is in the way, even one that
// is queued behind the caller's own transaction.
func TestFreshReadGivesUp(t *testing.T) {
	t.Parallel()
	t.Run("pool exhausted", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		small := h.db.Pool(t, pgtest.MaxConns(1))
		client, err := pgqueue.NewClient(t.Context(), small, pgqueue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, tx := h.snapshot(t, pgx.RepeatableRead)
		h.exec(t, `update pgqueue.task set priority = 9`)
		taken, err := small.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Release()
		mustRaceWithin(t, client, tx, 10*time.Second)
	})
	t.Run("queued alter table", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		_, tx := h.snapshot(t, pgx.RepeatableRead)
		h.exec(t, `update pgqueue.task set priority = 9`)
		other := h.db.Conn(t)
		altered := make(chan error, 1)
		go func() {
			_, err := other.Exec(t.Context(), "alter table pgqueue.task add column extra integer")
			altered <- err
		}()
		pgtest.WaitBlocked(t, h.db.Conn(t), other.PgConn().PID())
		mustRaceWithin(t, h.Client, tx, 10*time.Second)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, altered, "the end of alter table"); err != nil {
			t.Fatal(err)
		}
	})
}

// mustRaceWithin bounds the call generously: without its own limits it would wait for ever.
func mustRaceWithin(t *testing.T, client *pgqueue.Client, tx pgx.Tx, most time.Duration) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := client.EnqueueTx(t.Context(), tx, keyed)
		ended <- err
	}()
	select {
	case err := <-ended:
		var race *pgqueue.Error
		if !errors.Is(err, pgqueue.ErrRace) || !errors.As(err, &race) || race.Cause != "holder_changed" {
			t.Errorf("error is %v, want the race", err)
		}
	case <-time.After(most):
		t.Fatal("the fresh read does not give up")
	}
}
