package gen_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/sql"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.Options{Migrate: sql.Migrate}) }

var (
	_ gen.DB = (*pgx.Conn)(nil)
	_ gen.DB = (pgx.Tx)(nil)
	_ gen.DB = (*pgxpool.Pool)(nil)
)

var modes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement,
	"cache_describe":  pgx.QueryExecModeCacheDescribe,
	"describe_exec":   pgx.QueryExecModeDescribeExec,
	"exec":            pgx.QueryExecModeExec,
	"simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

// inAllModes runs a test on a pool of each query execution mode, in a session far from the client's time zone.
func inAllModes(t *testing.T, test func(t *testing.T, db *pgxpool.Pool)) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.New(t).Pool(t, pgtest.ExecMode(mode), pgtest.RuntimeParam("timezone", "Asia/Kolkata")))
		})
	}
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != code {
		t.Errorf("got error %v, want SQLSTATE %s", err, code)
	}
}

func open(t testing.TB, db gen.DB) uuid.UUID {
	t.Helper()
	return must(gen.OpenLease(t.Context(), db, gen.OpenLeaseParams{Worker: "w", Length: new(time.Minute)}))(t)
}

func enqueue(t testing.TB, db gen.DB, p gen.EnqueueParams) uuid.UUID {
	t.Helper()
	p.TaskName = "task"
	return *must(gen.Enqueue(t.Context(), db, p))(t).TaskID
}

func claim(t testing.TB, db gen.DB, lease uuid.UUID) []gen.ClaimedTask {
	t.Helper()
	return must(gen.Claim(t.Context(), db, gen.ClaimParams{LeaseID: lease, MaxTasks: new(10)}))(t)
}

func task(t testing.TB, db gen.DB, id uuid.UUID) gen.TaskView {
	t.Helper()
	found := must(gen.GetTask(t.Context(), db, gen.GetTaskParams{TaskID: id}))(t)
	if len(found) != 1 {
		t.Fatalf("get_task gave %d rows", len(found))
	}
	return found[0]
}

func TestEnqueueWithEverything(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		at := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
		payload := json.RawMessage(`{"n": 12345678901234567890, "x": 1.0, "s": "it's a \"q\" \\ $1 é"}`)
		keys := []string{"a", `b "c", {d}\`, "NULL", "it's"}
		receipt := must(gen.Enqueue(ctx, db, gen.EnqueueParams{
			TaskName: "it's", Payload: payload, Queue: new("mail"), Priority: new(-7), RunAfter: &at, ActiveKey: new("k"),
			WindowKey: new("w"), WindowLength: new(36 * time.Hour), MaxAttempts: new(3), Backoff: new(1500 * time.Millisecond),
			MaxBackoff: new(time.Minute), Timeout: new(50*time.Hour + 250*time.Millisecond), Lease: new(90 * time.Second),
			ResourceKeys: keys, Metadata: json.RawMessage("[1.50]"), Wait: new(false), Namespace: new("ns"),
		}))(t)
		equal(t, "disposition", receipt.Disposition, gen.DispositionCreated)
		equal(t, "match", receipt.DuplicateMatch, "")
		equal(t, "status", receipt.Status, gen.TaskStatusReady)
		equal(t, "priority", *receipt.Priority, -7)
		equal(t, "drift", *receipt.PolicyDrift, false)
		equal(t, "error", receipt.ErrorCode, nil)
		equal(t, "detail", receipt.ErrorDetail, nil)
		if !receipt.RunAfter.Equal(at) || time.Since(*receipt.CreatedAt).Abs() > time.Hour {
			t.Errorf("times: %+v", receipt)
		}

		lease := must(gen.OpenLease(ctx, db, gen.OpenLeaseParams{Worker: "w", Namespace: new("ns")}))(t)
		claimed := must(gen.Claim(ctx, db, gen.ClaimParams{
			LeaseID: lease, Queues: []string{"other", "mail"}, WaitFor: new(time.Second), Namespace: new("ns"),
		}))(t)
		if len(claimed) != 1 {
			t.Fatalf("claimed %d", len(claimed))
		}
		c := claimed[0]
		equal(t, "id", c.ID, *receipt.TaskID)
		equal(t, "name", c.Name, "it's")
		equal(t, "payload", string(c.Payload), `{"n": 12345678901234567890, "s": "it's a \"q\" \\ $1 é", "x": 1.0}`)
		equal(t, "metadata", string(c.Metadata), "[1.50]")
		equal(t, "keys", c.ResourceKeys, keys)
		equal(t, "timeout", *c.Timeout, 50*time.Hour+250*time.Millisecond)
		equal(t, "numbers", []int{c.Priority, c.Attempt, c.MaxAttempts, c.LeaseNumber}, []int{-7, 1, 3, 1})

		found := must(gen.GetTask(ctx, db, gen.GetTaskParams{TaskID: c.ID, Namespace: new("ns")}))(t)[0]
		equal(t, "status", found.Status, gen.TaskStatusRunning)
		equal(t, "lease", *found.LeaseID, lease)
		equal(t, "worker", *found.Worker, "w")
		equal(t, "active key", *found.ActiveKey, "k")
		equal(t, "finished", found.FinishedAt, nil)
		equal(t, "stored payload", string(found.Payload), string(c.Payload))
	})
}

func TestDefaultsAndNulls(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		id := enqueue(t, db, gen.EnqueueParams{})
		found := task(t, db, id)
		equal(t, "namespace", found.Namespace, "default")
		equal(t, "payload", string(found.Payload), "null")
		equal(t, "metadata", found.Metadata, nil)
		equal(t, "keys", found.ResourceKeys, nil)
		equal(t, "key", found.ActiveKey, nil)
		equal(t, "no task", len(must(gen.GetTask(t.Context(), db, gen.GetTaskParams{TaskID: uuid.New()}))(t)), 0)

		// Given and empty is not left out; JSON null is not SQL null.
		id = enqueue(t, db, gen.EnqueueParams{ResourceKeys: []string{}, Metadata: json.RawMessage("null")})
		found = task(t, db, id)
		equal(t, "empty keys", found.ResourceKeys, []string{})
		equal(t, "JSON null", string(found.Metadata), "null")

		_, err := gen.Enqueue(t.Context(), db, gen.EnqueueParams{TaskName: "task", Payload: json.RawMessage("{")})
		wantCode(t, err, "22P02")
	})
}

func TestUnique(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		payload := json.RawMessage(`{"b": [1.0, 1e3], "a": null}`)
		key := must(gen.UniqueKey(ctx, db, gen.UniqueKeyParams{TaskName: "task", Payload: payload}))(t)
		equal(t, "holders", len(must(gen.PendingHolder(ctx, db, gen.PendingHolderParams{TaskName: "task", ActiveKey: key}))(t)), 0)
		p := gen.EnqueueUniqueParams{TaskName: "task", Payload: payload}
		first := must(gen.EnqueueUnique(ctx, db, p))(t)
		second := must(gen.EnqueueUnique(ctx, db, p))(t)
		equal(t, "first", first.Disposition, gen.DispositionCreated)
		equal(t, "second", second.Disposition, gen.DispositionReused)
		equal(t, "match", second.DuplicateMatch, gen.DuplicateMatchActive)
		equal(t, "id", second.TaskID, first.TaskID)
		equal(t, "derived key", *task(t, db, *first.TaskID).ActiveKey, key)
		holder := must(gen.PendingHolder(ctx, db, gen.PendingHolderParams{TaskName: "task", ActiveKey: key}))(t)
		equal(t, "holders", len(holder), 1)
		equal(t, "holder", holder[0].TaskID, first.TaskID)

		window := gen.TryEnqueueUniqueParams{TaskName: "task", Payload: json.RawMessage("1"), WindowKey: new("w"), WindowLength: new(time.Hour)}
		accepted := must(gen.TryEnqueueUnique(ctx, db, window))(t)
		equal(t, "accepted", accepted.ErrorCode, nil)
		window.Payload = json.RawMessage("1.0")
		refused := must(gen.TryEnqueueUnique(ctx, db, window))(t)
		if refused.ErrorCode == nil || *refused.ErrorCode != "PQ001" || !json.Valid(refused.ErrorDetail) || *refused.ErrorMessage == "" {
			t.Errorf("refusal: %+v", refused)
		}
		equal(t, "refused id", refused.TaskID, nil)
		equal(t, "refused status", refused.Status, "")
		equal(t, "conflicting", refused.ConflictingTaskID, accepted.TaskID)
		_, err := gen.EnqueueUnique(ctx, db, gen.EnqueueUniqueParams(window))
		wantCode(t, err, "PQ001")
		plain := must(gen.TryEnqueue(ctx, db, gen.TryEnqueueParams(window)))(t)
		equal(t, "plain refusal", plain.ConflictingTaskID, accepted.TaskID)
		invalid := must(gen.TryEnqueueUnique(ctx, db, gen.TryEnqueueUniqueParams{TaskName: "task", ActiveKey: new("")}))(t)
		equal(t, "invalid key", *invalid.ErrorCode, "PQ006")

		fingerprint := must(gen.Fingerprint(ctx, db, gen.FingerprintParams{TaskName: "task", ResourceKeys: []string{"a"}}))(t)
		equal(t, "fingerprint", len(fingerprint), 32)
	})
}

func TestDeclaredType(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		err := gen.DeclareTask(ctx, db, gen.DeclareTaskParams{
			TaskName: "task", Queue: new("q"), ActiveKeyRequired: new(true), Backoff: new(time.Second), MaxPayloadBytes: new(100),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = gen.Enqueue(ctx, db, gen.EnqueueParams{TaskName: "task"})
		wantCode(t, err, "PQ004")
		receipt := must(gen.Enqueue(ctx, db, gen.EnqueueParams{TaskName: "task", ActiveKey: new("k")}))(t)
		equal(t, "queue", *receipt.Queue, "q")
		equal(t, "version", must(gen.SchemaVersion(ctx, db))(t), must(sql.Version())(t))
	})
}

func TestOutcomes(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		lease := open(t, db)
		for range 6 {
			enqueue(t, db, gen.EnqueueParams{})
		}
		tasks := claim(t, db, lease)
		if len(tasks) != 6 {
			t.Fatalf("claimed %d", len(tasks))
		}

		done := gen.CompleteParams{TaskID: tasks[0].ID, LeaseNumber: tasks[0].LeaseNumber, Result: json.RawMessage("1.0")}
		equal(t, "complete", must(gen.Complete(ctx, db, done))(t), gen.WriteResultOK)
		equal(t, "again", must(gen.Complete(ctx, db, done))(t), gen.WriteResultLeaseLost)
		equal(t, "result", string(task(t, db, tasks[0].ID).Result), "1.0")

		unknown := uuid.New()
		lost := must(gen.CompleteMany(ctx, db, gen.CompleteManyParams{
			TaskIDs:      []uuid.UUID{tasks[1].ID, unknown, tasks[2].ID},
			LeaseNumbers: []int{tasks[1].LeaseNumber, 1, tasks[2].LeaseNumber},
			Results:      []json.RawMessage{json.RawMessage(`{"q": "\"\\, {}", "n": 12345678901234567890}`), nil, json.RawMessage("null")},
		}))(t)
		equal(t, "lost", lost, []uuid.UUID{unknown})
		equal(t, "object", string(task(t, db, tasks[1].ID).Result), `{"n": 12345678901234567890, "q": "\"\\, {}"}`)
		equal(t, "JSON null", string(task(t, db, tasks[2].ID).Result), "null")
		lost = must(gen.CompleteMany(ctx, db, gen.CompleteManyParams{
			TaskIDs: []uuid.UUID{tasks[3].ID}, LeaseNumbers: []int{tasks[3].LeaseNumber}, Results: []json.RawMessage{nil},
		}))(t)
		equal(t, "none lost", len(lost), 0)
		equal(t, "SQL null", task(t, db, tasks[3].ID).Result, nil)
		equal(t, "no tasks", len(must(gen.CompleteMany(ctx, db, gen.CompleteManyParams{}))(t)), 0)

		failed := must(gen.Fail(ctx, db, gen.FailParams{
			TaskID: tasks[4].ID, LeaseNumber: tasks[4].LeaseNumber, Error: "it's\nbad", RetryAfter: new(time.Hour),
		}))(t)
		equal(t, "failure", failed.Status, gen.TaskStatusReady)
		if until := time.Until(*failed.RunAfter); until < 50*time.Minute || until > 70*time.Minute {
			t.Errorf("retry in %s", until)
		}
		attempts := must(gen.ListAttempts(ctx, db, gen.ListAttemptsParams{TaskID: tasks[4].ID}))(t)
		if len(attempts) != 1 || attempts[0].Outcome != gen.AttemptOutcomeFailed || *attempts[0].Error != "it's\nbad" || attempts[0].ErrorTrace != nil {
			t.Errorf("attempts: %+v", attempts)
		}
		late := must(gen.Fail(ctx, db, gen.FailParams{TaskID: tasks[4].ID, LeaseNumber: tasks[4].LeaseNumber}))(t)
		equal(t, "late failure", late, gen.Failure{TaskID: tasks[4].ID, Result: gen.WriteResultLeaseLost})

		snoozed := must(gen.Snooze(ctx, db, gen.SnoozeParams{TaskID: tasks[5].ID, LeaseNumber: tasks[5].LeaseNumber, Delay: time.Hour}))(t)
		equal(t, "snooze", snoozed, gen.WriteResultOK)
		_, err := gen.Snooze(ctx, db, gen.SnoozeParams{TaskID: tasks[5].ID, LeaseNumber: tasks[5].LeaseNumber, Delay: -time.Second})
		wantCode(t, err, "22023")
		equal(t, "released", must(gen.CloseLease(ctx, db, gen.CloseLeaseParams{LeaseID: lease}))(t), 0)
	})
}

func TestOperatorsAndUpkeep(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		lease := open(t, db)
		running := enqueue(t, db, gen.EnqueueParams{})
		if len(claim(t, db, lease)) != 1 {
			t.Fatal("nothing claimed")
		}
		equal(t, "quiet renewal", must(gen.RenewLease(ctx, db, gen.RenewLeaseParams{LeaseID: lease}))(t).Cancelled, []uuid.UUID{})
		equal(t, "cancel", must(gen.Cancel(ctx, db, gen.CancelParams{TaskID: running}))(t), gen.TaskStatusRunning)
		renewal := must(gen.RenewLease(ctx, db, gen.RenewLeaseParams{LeaseID: lease}))(t)
		equal(t, "cancelled", renewal.Cancelled, []uuid.UUID{running})
		if !renewal.Renewed || time.Until(*renewal.ExpiresAt) < 30*time.Second {
			t.Errorf("renewal: %+v", renewal)
		}
		gone := must(gen.RenewLease(ctx, db, gen.RenewLeaseParams{LeaseID: uuid.New()}))(t)
		equal(t, "unknown lease", gone.Renewed, false)
		equal(t, "unknown lease", gone.ExpiresAt, nil)

		keyed := enqueue(t, db, gen.EnqueueParams{ActiveKey: new("k"), Delay: new(time.Hour)})
		plain := enqueue(t, db, gen.EnqueueParams{})
		for _, id := range []uuid.UUID{keyed, plain} {
			if err := gen.Discard(ctx, db, gen.DiscardParams{TaskID: id}); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, gen.Discard(ctx, db, gen.DiscardParams{TaskID: uuid.New()}), "PQ008")
		retried := must(gen.Retry(ctx, db, gen.RetryParams{TaskID: keyed}))(t)
		equal(t, "retried", retried, gen.Retried{TaskID: keyed, HoldsKey: new(true)})
		_, err := gen.Retry(ctx, db, gen.RetryParams{TaskID: keyed})
		wantCode(t, err, "PQ009")

		stats := must(gen.QueueStats(ctx, db, gen.QueueStatsParams{}))(t)
		i := slices.IndexFunc(stats, func(s gen.QueueStat) bool { return s.Queue == "default" })
		if i < 0 || stats[i].Ready != 1 || stats[i].Running != 1 || stats[i].Discarded != 1 || stats[i].OldestReadyAt == nil {
			t.Errorf("stats: %+v", stats)
		}
		pruned := must(gen.Prune(ctx, db, gen.PruneParams{Retention: new(time.Duration(0)), MaxTasks: new(100)}))(t)
		equal(t, "pruned", pruned.Tasks, 1)
		equal(t, "reaped", must(gen.ReapLost(ctx, db, gen.ReapLostParams{}))(t), gen.Reaped{})
		must(gen.ReleaseStale(ctx, db, gen.ReleaseStaleParams{}))(t)
		equal(t, "handed back", must(gen.CloseLease(ctx, db, gen.CloseLeaseParams{LeaseID: lease}))(t), 1)
	})
}

func TestTransaction(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		ctx := t.Context()
		undone := errors.New("undone")
		var id uuid.UUID
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			id = enqueue(t, tx, gen.EnqueueParams{})
			task(t, tx, id)
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		equal(t, "rolled back", len(must(gen.GetTask(ctx, db, gen.GetTaskParams{TaskID: id}))(t)), 0)

		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := gen.QueueStats(cancelled, db, gen.QueueStatsParams{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want context.Canceled", err)
		}
	})
}

// A century does not fit 32 bits of seconds, nor nanoseconds a microsecond: the rest below one is dropped.
func TestLongDurations(t *testing.T) {
	inAllModes(t, func(t *testing.T, db *pgxpool.Pool) {
		long := 3650 * 24 * time.Hour
		before := time.Now()
		id := enqueue(t, db, gen.EnqueueParams{Delay: new(10*long + 999), Timeout: &long})
		found := task(t, db, id)
		if late := found.RunAfter.Sub(before) - 10*long; late < -time.Minute || late > time.Minute {
			t.Errorf("due %s off", late)
		}
		if !strings.Contains(string(found.Policy), "315360000000") {
			t.Errorf("policy: %s", found.Policy)
		}
	})
}

// Every server reads the text of every duration.
func TestInterval(t *testing.T) {
	conn := pgtest.New(t).Conn(t)
	for _, d := range []time.Duration{0, 1, 999, time.Microsecond, -time.Microsecond, time.Second - 1, time.Minute, 36 * time.Minute, 24 * time.Hour,
		-90*time.Hour - time.Millisecond, 87600*time.Hour + 123456*time.Microsecond, math.MaxInt64, math.MinInt64} {
		var us int64
		err := conn.QueryRow(t.Context(), "select (extract(epoch from $1::text::interval) * 1000000)::bigint", gen.Interval(d)).Scan(&us)
		if err != nil || us != d.Microseconds() {
			t.Errorf("%s is %q, read as %d microseconds, %v", d, gen.Interval(d), us, err)
		}
	}
}
