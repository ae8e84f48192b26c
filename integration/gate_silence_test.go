package integration_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// A6, case_C50, case_C55: a suppressed duplicate sends no notification, takes no id from a sequence, burns no transaction id,
// writes no row version (not even one that is rolled back), and leaves no line in the server's log.
func TestA6_DuplicatesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	both := e.window("both", time.Hour)
	both.ActiveKey = ptr("both")
	requests := map[string]request{
		"active":  e.active("k"),
		"derived": {TaskName: "derived", Payload: json.RawMessage(`{"a": 1}`), Namespace: &e.ns},
		"window":  e.window("w", time.Hour),
		"both":    both,
	}
	for _, r := range requests {
		e.create(t, r)
	}
	// Somebody waits, so that a created task does notify.
	exec(t, e.pool, `insert into pgqueue.queue (namespace, name, waiting_until) values ($1::text, 'default', now() + interval '1 hour')`, e.ns)
	listener := e.session(t, readCommitted)
	exec(t, listener, `listen "pgqueue:`+e.ns+`"`)

	producer := e.session(t, readCommitted)
	limited := e.session(t, readCommitted, pgtest.RuntimeParam("lock_timeout", "5s"))
	for name, r := range requests {
		exec(t, producer, "begin")
		for range 20 {
			if got := enqueue(t, producer, r); got.Disposition != gen.DispositionReused {
				t.Fatalf("%s: %s", name, show(got))
			}
			tryEnqueue(t, producer, r)
		}
		if id := value[string](t, producer, "select coalesce(pg_current_xact_id_if_assigned()::text, '')"); id != "" {
			t.Errorf("%s: the duplicate took transaction id %s", name, id)
		}
		if n := value[int64](t, producer, `select sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint
			from pg_stat_xact_user_tables where schemaname = 'pgqueue'`); n != 0 {
			t.Errorf("%s: %d row versions written", name, n)
		}
		exec(t, producer, "commit")

		exec(t, limited, "begin")
		enqueue(t, limited, r)
		if id := value[string](t, limited, "select coalesce(pg_current_xact_id_if_assigned()::text, '')"); id != "" {
			t.Errorf("%s, with lock_timeout: the duplicate took transaction id %s", name, id)
		}
		exec(t, limited, "commit")
	}
	if n := value[int](t, e.pool, "select count(*) from pg_catalog.pg_sequences where schemaname = 'pgqueue'"); n != 0 {
		t.Errorf("the schema has %d sequences", n)
	}

	// Notifications come in the order of commits: had a duplicate sent one, it would come before this task's.
	fresh := e.active("fresh")
	fresh.Queue = ptr("default")
	exec(t, producer, "select pg_notify($1::text, 'sentinel')", "pgqueue:"+e.ns)
	enqueue(t, producer, fresh)
	for _, want := range []string{"sentinel", "default"} {
		got, err := listener.WaitForNotification(t.Context())
		if err != nil || got.Payload != want {
			t.Fatalf("notification %v, %v; want %s", got, err, want)
		}
	}
	checkLogIsSilent(t, producer)
}

// checkLogIsSilent wants no line of this session in the server's log but the one error made here, which shows that the log
// would tell. The log of a server given by URL is out of reach.
func checkLogIsSilent(t *testing.T, session gen.DB) {
	t.Helper()
	if pgtest.ServerKind(t) == "url" {
		t.Log("not checked: the server's log")
		return
	}
	pid := value[string](t, session, "select '[' || pg_backend_pid() || ']'")
	if _, err := session.Exec(t.Context(), "select 1 / 0"); err == nil {
		t.Fatal("no error")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var lines []string
		for line := range strings.SplitSeq(pgtest.Log(t), "\n") {
			if strings.Contains(line, pid) && !strings.Contains(line, "STATEMENT:") {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 && strings.Contains(lines[len(lines)-1], "division by zero") {
			if len(lines) > 1 {
				t.Errorf("the server logged\n%s", strings.Join(lines, "\n"))
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the control error is not in the log: %q", lines)
		}
	}
}
