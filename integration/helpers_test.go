package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

const (
	readCommitted  = "read committed"
	repeatableRead = "repeatable read"
	serializable   = "serializable"
)

var levels = []string{readCommitted, repeatableRead, serializable}

// atLevel sets the default isolation level of a session, whatever the database's own is.
func atLevel(level string) pgtest.ConnOption {
	return pgtest.RuntimeParam("default_transaction_isolation", level)
}

// bounded ends a statement that does not end by itself, long before the test binary would be ended.
func bounded() pgtest.ConnOption { return pgtest.RuntimeParam("statement_timeout", "20s") }

// env is a namespace in a test's database. Subtests that share the database take a namespace each, see scope.
type env struct {
	db   *pgtest.DB
	pool *pgxpool.Pool // at READ COMMITTED
	ns   string
	made *atomic.Int64
}

func newEnv(t testing.TB, options ...pgtest.Option) *env {
	t.Helper()
	db := pgtest.New(t, options...)
	e := &env{db: db, pool: db.Pool(t, atLevel(readCommitted), bounded()), made: &atomic.Int64{}}
	return e.scope()
}

// scope is a namespace of its own in the same database.
func (e *env) scope() *env {
	other := *e
	other.ns = fmt.Sprintf("ns%d", e.made.Add(1))
	return &other
}

// session opens a connection beside the pool.
func (e *env) session(t testing.TB, level string, options ...pgtest.ConnOption) *pgx.Conn {
	t.Helper()
	return e.db.Conn(t, append([]pgtest.ConnOption{atLevel(level), bounded()}, options...)...)
}

func ptr[T any](v T) *T { return &v }

type request = gen.EnqueueUniqueParams

// active is a request with an active key, of task "send" where a test names no other.
func (e *env) active(key string) request {
	return request{TaskName: "send", ActiveKey: &key, Namespace: &e.ns}
}

// window is a request with a window key.
func (e *env) window(key string, length time.Duration) request {
	return request{TaskName: "send", WindowKey: &key, WindowLength: &length, Namespace: &e.ns}
}

func enqueue(t testing.TB, db gen.DB, r request) gen.Receipt {
	t.Helper()
	receipt, err := gen.EnqueueUnique(t.Context(), db, r)
	if err != nil {
		t.Fatalf("enqueue_unique: %v", err)
	}
	return receipt
}

func tryEnqueue(t testing.TB, db gen.DB, r request) gen.Receipt {
	t.Helper()
	receipt, err := gen.TryEnqueueUnique(t.Context(), db, gen.TryEnqueueUniqueParams(r))
	if err != nil {
		t.Fatalf("try_enqueue_unique: %v", err)
	}
	return receipt
}

func (e *env) enqueue(t testing.TB, r request) gen.Receipt {
	t.Helper()
	return enqueue(t, e.pool, r)
}

// create enqueues what must be new.
func (e *env) create(t testing.TB, r request) uuid.UUID {
	t.Helper()
	return wantCreated(t, e.enqueue(t, r))
}

func wantCreated(t testing.TB, r gen.Receipt) uuid.UUID {
	t.Helper()
	if r.Disposition != gen.DispositionCreated || r.DuplicateMatch != "" || r.TaskID == nil || r.ErrorCode != nil {
		t.Fatalf("the receipt is %s, want CREATED", show(r))
	}
	return *r.TaskID
}

func wantReused(t testing.TB, r gen.Receipt, id uuid.UUID, match gen.DuplicateMatch) {
	t.Helper()
	if r.Disposition != gen.DispositionReused || r.DuplicateMatch != match || r.TaskID == nil || *r.TaskID != id || r.ErrorCode != nil {
		t.Fatalf("the receipt is %s, want REUSED %s of %s", show(r), match, id)
	}
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// wantError returns the server's error, which must have the SQLSTATE.
func wantError(t testing.TB, err error, state string) *pgconn.PgError {
	t.Helper()
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != state {
		t.Fatalf("the error is %v, want SQLSTATE %s", err, state)
	}
	return failed
}

// wantNoUnicode wants the refusal of a text with NUL or broken UTF-8. In the simple protocol a NUL ends the message early.
func wantNoUnicode(t testing.TB, err error) {
	t.Helper()
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != "22021" && failed.Code != "08P01" {
		t.Fatalf("the error is %v, want SQLSTATE 22021 or 08P01", err)
	}
}

// wantRace checks the error of a lost race and its cause.
func wantRace(t testing.TB, err error, cause string) *pgconn.PgError {
	t.Helper()
	failed := wantError(t, err, "40001")
	if failed.ConstraintName != "unique_enqueue_race" {
		t.Fatalf("the constraint of %v is %q, want unique_enqueue_race", failed, failed.ConstraintName)
	}
	if got := member(t, []byte(failed.Detail), "cause"); got != cause {
		t.Fatalf("the cause of %v is %q, want %q", failed, got, cause)
	}
	return failed
}

// wantRefusal checks a refusal that came as a value.
func wantRefusal(t testing.TB, r gen.Receipt, code string) {
	t.Helper()
	if r.ErrorCode == nil || *r.ErrorCode != code || r.ErrorMessage == nil || r.TaskID != nil || r.Disposition != "" {
		t.Fatalf("the receipt is %s, want a refusal %s", show(r), code)
	}
}

// member reads a text member of a JSON object.
func member(t testing.TB, object []byte, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatalf("%q is no JSON object: %v", object, err)
	}
	text, _ := members[name].(string)
	return text
}

// exec runs SQL. $1 is usually the namespace.
func exec(t testing.TB, db gen.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value reads the single value of a query.
func value[T any](t testing.TB, db gen.DB, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// tasks counts the tasks of the namespace.
func (e *env) tasks(t testing.TB) int {
	t.Helper()
	return value[int](t, e.pool, "select count(*) from pgqueue.task where namespace = $1::text", e.ns)
}

// rows counts everything that an enqueue could write in the namespace.
func (e *env) rows(t testing.TB) int {
	t.Helper()
	return value[int](t, e.pool, `select (select count(*) from pgqueue.task where namespace = $1::text)
		+ (select count(*) from pgqueue.unique_lock where namespace = $1::text)
		+ (select count(*) from pgqueue.unique_window where namespace = $1::text)`, e.ns)
}

// task reads one task.
func (e *env) task(t testing.TB, id uuid.UUID) gen.TaskView {
	t.Helper()
	found, err := gen.GetTask(t.Context(), e.pool, gen.GetTaskParams{TaskID: id, Namespace: &e.ns})
	if err != nil || len(found) != 1 {
		t.Fatalf("get_task %s: %d rows, %v", id, len(found), err)
	}
	return found[0]
}

// keyHolder is what the only lock row of the namespace points to; the zero UUID when there is none.
func (e *env) keyHolder(t testing.TB) uuid.UUID {
	t.Helper()
	text := value[string](t, e.pool,
		"select coalesce((select task_id from pgqueue.unique_lock where namespace = $1::text), $2::uuid)::text", e.ns, uuid.Nil.String())
	return uuid.MustParse(text)
}

// answer is what came of an enqueue that ran beside the test.
type answer struct {
	receipt gen.Receipt
	err     error
}

// blocked starts an enqueue and returns when it waits for a lock. Its answer comes on the channel.
func (e *env) blocked(t testing.TB, conn *pgx.Conn, r request) <-chan answer {
	t.Helper()
	done := make(chan answer, 1)
	ctx := t.Context()
	go func() {
		receipt, err := gen.EnqueueUnique(ctx, conn, r)
		done <- answer{receipt, err}
	}()
	pgtest.WaitBlocked(t, e.pool, conn.PgConn().PID())
	return done
}

// wait takes an answer that must come now.
func wait[T any](t testing.TB, done <-chan T) T {
	t.Helper()
	select {
	case got := <-done:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("the call does not end")
		panic("unreachable")
	}
}

// checkInvariants looks for rows that must never exist, whatever ran before: by its own queries, and by those that the product
// has for its users.
func checkInvariants(t testing.TB, db gen.DB) {
	t.Helper()
	rows, err := db.Query(context.WithoutCancel(t.Context()), `
		select format('two pending tasks of one key: %s, %s', namespace, array_agg(id)) as broken
		from pgqueue.task where lock_key is not null and status in ('READY', 'RUNNING')
		group by namespace, lock_key having count(*) > 1
		union all
		select format('pending task %s, %s does not hold its key, which points to %s', t.namespace, t.id, coalesce(l.task_id::text, 'nothing'))
		from pgqueue.task t left join pgqueue.unique_lock l on l.namespace = t.namespace and l.key = t.lock_key
		where t.lock_key is not null and t.status in ('READY', 'RUNNING') and l.task_id is distinct from t.id
		union all
		select format('the lock row %s points to pending task %s, %s of another key', encode(l.key, 'hex'), t.namespace, t.id)
		from pgqueue.unique_lock l join pgqueue.task t on t.namespace = l.namespace and t.id = l.task_id
		where t.status in ('READY', 'RUNNING') and t.lock_key is distinct from l.key
		union all
		select format('task %s, %s is %s and claimable = %s', namespace, id, status, claimable)
		from pgqueue.task where claimable <> (status = 'READY')
		union all
		select format('task %s, %s is RUNNING without a lease', namespace, id)
		from pgqueue.task where status = 'RUNNING' and lease_id is null
		union all
		select format('task %s, %s is %s, finished at %s', namespace, id, status, coalesce(finished_at::text, 'null'))
		from pgqueue.task where (status in ('READY', 'RUNNING')) <> (finished_at is null)`)
	if err != nil {
		t.Fatalf("invariants: %v", err)
	}
	broken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("invariants: %v", err)
	}
	if len(broken) > 0 {
		t.Errorf("broken invariants:\n  %s", strings.Join(broken, "\n  "))
	}
	violations, err := gen.CheckInvariants(context.WithoutCancel(t.Context()), db, gen.CheckInvariantsParams{})
	if err != nil || len(violations) > 0 {
		t.Errorf("check_invariants: %s, %v", show(violations), err)
	}
}
