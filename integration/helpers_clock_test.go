package integration_test

import (
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// clock is the queue's clock in one test database. It lives in sequences, which no snapshot hides: a session at
// REPEATABLE READ sees the clock move like everybody else.
type clock struct{ e *env }

// newClockEnv makes an environment whose clock the test can stop and move.
func newClockEnv(t testing.TB, options ...pgtest.Option) (*env, clock) {
	t.Helper()
	e := newEnv(t, options...)
	exec(t, e.pool, "create schema pgqueue_test")
	exec(t, e.pool, "create sequence pgqueue_test.stopped_at minvalue 0 start 0")
	exec(t, e.pool, "create sequence pgqueue_test.ahead_by minvalue 0 start 0")
	// No scan of the sequences: with enable_seqscan off its cost would start the JIT compiler in every call.
	exec(t, e.pool, `create or replace function pgqueue._now() returns timestamptz language sql volatile as $$
		select case when coalesce(pg_sequence_last_value('pgqueue_test.stopped_at'), 0) = 0 then clock_timestamp()
				else timestamptz 'epoch' + pg_sequence_last_value('pgqueue_test.stopped_at') * interval '1 microsecond' end
			+ coalesce(pg_sequence_last_value('pgqueue_test.ahead_by'), 0) * interval '1 microsecond' $$`)
	return e, clock{e}
}

// stop holds the clock at an instant.
func (c clock) stop(t testing.TB, at time.Time) {
	t.Helper()
	exec(t, c.e.pool, "select setval('pgqueue_test.stopped_at', $1::bigint), setval('pgqueue_test.ahead_by', 0)", at.UnixMicro())
}

// forward moves the clock, stopped or running.
func (c clock) forward(t testing.TB, by time.Duration) {
	t.Helper()
	exec(t, c.e.pool, "select setval('pgqueue_test.ahead_by', coalesce(pg_sequence_last_value('pgqueue_test.ahead_by'), 0) + $1::bigint)", by.Microseconds())
}
