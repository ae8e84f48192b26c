package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/gen"
	"github.com/pgqueue/pgqueue/integration/pgtest"
	"github.com/pgqueue/pgqueue/pgqueue"
)

type invoice struct {
	OrderID int64  `json:"order_id"`
	Note    string `json:"note,omitempty"`
}

var sendInvoice = pgqueue.Define("send_invoice", pgqueue.TaskOptions[invoice]{
	Queue: "billing", Priority: 3, MaxAttempts: 4, Backoff: time.Second,
	UniqueWhileActive: func(a invoice) string { return "order:" + json.Number(strings.TrimSpace(jsonOf(a.OrderID))).String() },
})

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A1, A5 through the typed client: the receipt of a duplicate is the stored row.
func TestClientEnqueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first, err := sendInvoice.Enqueue(t.Context(), h.Client, invoice{OrderID: 42})
	if err != nil || !first.Created() || first.Queue != "billing" || first.Priority != 3 || first.Status != pgqueue.Ready {
		t.Fatalf("receipt %+v, %v", first, err)
	}
	second, err := sendInvoice.Enqueue(t.Context(), h.Client, invoice{OrderID: 42, Note: "again"},
		pgqueue.WithQueue("elsewhere"), pgqueue.WithPriority(-7), pgqueue.WithDelay(time.Hour))
	if err != nil || second.Created() || second.DuplicateMatch != pgqueue.MatchActive || second.TaskID != first.TaskID ||
		second.Queue != "billing" || second.Priority != 3 || !second.RunAfter.Equal(first.RunAfter) {
		t.Fatalf("receipt %+v, %v", second, err)
	}
	task, err := h.Task(t.Context(), first.TaskID)
	if err != nil || *task.ActiveKey != "order:42" || string(task.Payload) != `{"order_id": 42}` || task.MaxAttempts != 4 {
		t.Errorf("task %+v, %v", task, err)
	}
}

// A10, A16: the task lives and dies with the caller's transaction, and a refusal leaves the transaction usable. case_C09.
func TestClientEnqueueTx(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pool := h.db.Pool(t)
	request := pgqueue.Request{TaskName: "w", Payload: json.RawMessage(`1`), WindowKey: "k", Window: time.Hour}
	rolledBack := errors.New("roll back")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := h.EnqueueTx(t.Context(), tx, request); err != nil {
			return err
		}
		return rolledBack
	})
	if !errors.Is(err, rolledBack) {
		t.Fatal(err)
	}
	var first pgqueue.Receipt
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		if first, err = h.EnqueueTx(t.Context(), tx, request); err != nil {
			return err
		}
		other := request
		other.Payload = json.RawMessage(`2`)
		_, err = h.EnqueueTx(t.Context(), tx, other)
		var refused *pgqueue.Error
		if !errors.Is(err, pgqueue.ErrConflict) || !errors.As(err, &refused) || *refused.TaskID != first.TaskID || refused.Code != "PQ001" {
			t.Errorf("conflict is %v", err)
		}
		_, err = tx.Exec(t.Context(), "select 1")
		return err
	})
	if err != nil || !first.Created() {
		t.Fatalf("receipt %+v, %v", first, err)
	}
	h.awaitStatus(t, first.TaskID, pgqueue.Ready)
}

// Every SQLSTATE of the queue has its error in Go, in both forms: raised by a function, or a value in a receipt.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.exec(t, `select pgqueue.declare_task('declared', active_key_selector => '$.id')`)
	h.exec(t, `select pgqueue.declare_task('strict', active_key_selector => 'strict $.id')`)
	unknown := pgqueue.TaskID{1}
	done := h.enqueue(t, 1)
	if err := h.Discard(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	enqueue := func(r pgqueue.Request) func() error {
		return func() error { _, err := h.Enqueue(t.Context(), r); return err }
	}
	object := json.RawMessage(`{"id": "a"}`)
	for name, c := range map[string]struct {
		do   func() error
		kind error
		code string
		text string
	}{
		"mismatch":       {enqueue(pgqueue.Request{TaskName: "declared", Payload: object, ActiveKey: "b"}), pgqueue.ErrKeyMismatch, "PQ003", `"b"`},
		"required":       {enqueue(pgqueue.Request{TaskName: "declared"}), pgqueue.ErrKeyRequired, "PQ004", "finds nothing"},
		"selector":       {enqueue(pgqueue.Request{TaskName: "strict", Payload: json.RawMessage(`3`)}), pgqueue.ErrKeySelector, "PQ005", "strict"},
		"key too long":   {enqueue(pgqueue.Request{TaskName: "t", ActiveKey: strings.Repeat("x", 513)}), pgqueue.ErrInvalidKey, "PQ006", "513"},
		"key not UTF-8":  {enqueue(pgqueue.Request{TaskName: "t", ActiveKey: "\xff"}), pgqueue.ErrInvalidKey, "PQ006", `\xff`},
		"key with NUL":   {enqueue(pgqueue.Request{TaskName: "t", WindowKey: "a\x00", Window: 1}), pgqueue.ErrInvalidKey, "PQ006", `\x00`},
		"no window":      {enqueue(pgqueue.Request{TaskName: "t", WindowKey: "a"}), pgqueue.ErrInvalidWindow, "PQ007", "window_length"},
		"unknown task":   {func() error { _, err := h.Retry(t.Context(), unknown); return err }, pgqueue.ErrUnknownTask, "PQ008", unknown.String()},
		"unknown lookup": {func() error { _, err := h.Task(t.Context(), unknown); return err }, pgqueue.ErrUnknownTask, "PQ008", unknown.String()},
		"invalid state":  {func() error { return h.Discard(t.Context(), done) }, pgqueue.ErrInvalidState, "PQ009", "DISCARDED"},
		"no name":        {enqueue(pgqueue.Request{}), pgqueue.ErrInvalidArgument, "", "task_name"},
		"bad priority":   {enqueue(pgqueue.Request{TaskName: "t", Priority: ptr(101)}), pgqueue.ErrInvalidArgument, "22023", "101"},
		"payload NUL":    {enqueue(pgqueue.Request{TaskName: "t", Payload: json.RawMessage(`"a\u0000"`)}), pgqueue.ErrInvalidArgument, "22023", `\u0000`},
		"surrogate":      {enqueue(pgqueue.Request{TaskName: "t", Payload: json.RawMessage(`"\ud800"`)}), pgqueue.ErrInvalidArgument, "22023", `\ud800`},
		"not JSON":       {enqueue(pgqueue.Request{TaskName: "t", Payload: json.RawMessage(`{`)}), pgqueue.ErrInvalidArgument, "22023", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			var e *pgqueue.Error
			if !errors.Is(err, c.kind) || !errors.As(err, &e) {
				t.Fatalf("error is %v, want %v", err, c.kind)
			}
			if c.code != "" && e.Code != c.code || !strings.Contains(e.Error(), c.text) {
				t.Errorf("error is %v; want code %s and text %q", e, c.code, c.text)
			}
		})
	}
	if stats, err := h.Stats(t.Context()); err != nil || len(stats) != 1 || stats[0].Discarded != 1 || stats[0].Ready != 0 {
		t.Errorf("a refusal wrote something: %+v, %v", stats, err)
	}
}

// D4: a registered Go type refuses plain SQL that leaves the key out, and takes what the client sends.
func TestClientRegister(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	daily := pgqueue.Define("daily", pgqueue.TaskOptions[invoice]{
		UniqueRequest: func(a invoice) string { return jsonOf(a.OrderID) }, Window: 24 * time.Hour,
	})
	whole := pgqueue.Define("whole", pgqueue.TaskOptions[invoice]{UniquePayload: true, Queue: "w"})
	for range 2 {
		if err := h.Register(t.Context(), sendInvoice, daily, whole); err != nil {
			t.Fatal(err)
		}
	}
	conn := h.db.Conn(t)
	for _, c := range []struct{ sql, code string }{
		{`select pgqueue.enqueue('send_invoice', '{"order_id": 1}')`, "PQ004"},
		{`select pgqueue.enqueue_unique('send_invoice', '{"order_id": 1}')`, "PQ004"},
		{`select pgqueue.enqueue('daily', '{"order_id": 1}')`, "PQ004"},
		{`select pgqueue.enqueue('daily', '{"order_id": 1}', window_key => '1', window_length => '1 hour')`, "PQ003"},
		{`select pgqueue.enqueue_many('[{"task_name": "send_invoice", "payload": {"order_id": 1}}]')`, "PQ004"},
		{`select pgqueue.enqueue('daily', '{"order_id": 1}', window_key => '1')`, ""},
		{`select pgqueue.enqueue('send_invoice', '{"order_id": 1}', active_key => 'order:1')`, ""},
		{`select pgqueue.enqueue('whole', '{"order_id": 1}')`, ""},
	} {
		_, err := conn.Exec(t.Context(), c.sql)
		var server *pgconn.PgError
		if c.code == "" && err != nil || c.code != "" && (!errors.As(err, &server) || server.Code != c.code) {
			t.Errorf("%s: %v, want %q", c.sql, err, c.code)
		}
	}
	for _, enqueue := range []func() (pgqueue.Receipt, error){
		func() (pgqueue.Receipt, error) {
			return sendInvoice.Enqueue(t.Context(), h.Client, invoice{OrderID: 1})
		},
		func() (pgqueue.Receipt, error) { return daily.Enqueue(t.Context(), h.Client, invoice{OrderID: 1}) },
		func() (pgqueue.Receipt, error) { return whole.Enqueue(t.Context(), h.Client, invoice{OrderID: 1}) },
	} {
		if receipt, err := enqueue(); err != nil || receipt.Created() {
			t.Errorf("receipt %+v, %v; want the task that SQL enqueued", receipt, err)
		}
	}
}

func TestDefinePanics(t *testing.T) {
	t.Parallel()
	key := func(job) string { return "k" }
	for name, define := range map[string]func(){
		"no name":        func() { pgqueue.Define("", pgqueue.TaskOptions[job]{}) },
		"two keys":       func() { pgqueue.Define("t", pgqueue.TaskOptions[job]{UniquePayload: true, UniqueWhileActive: key}) },
		"no window":      func() { pgqueue.Define("t", pgqueue.TaskOptions[job]{UniqueRequest: key}) },
		"window alone":   func() { pgqueue.Define("t", pgqueue.TaskOptions[job]{Window: time.Hour}) },
		"second handler": func() { w := pgqueue.NewWorker(newHouse(t).Client, pgqueue.WorkerConfig{}); handleTwice(w) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			define()
		}()
	}
}

func handleTwice(w *pgqueue.Worker) {
	for range 2 {
		pgqueue.Handle(w, plainJob, func(context.Context, *pgqueue.Task[job]) error { return nil })
	}
}

func TestClientNeedsSchema(t *testing.T) {
	t.Parallel()
	_, err := pgqueue.NewClient(t.Context(), pgtest.Empty(t).Pool(t), pgqueue.Config{})
	if !errors.Is(err, pgqueue.ErrSchema) {
		t.Errorf("error is %v", err)
	}
}

// B1 through the typed client: outcomes in input order, later items find what earlier ones created.
func TestClientEnqueueMany(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	receipts, err := sendInvoice.EnqueueMany(t.Context(), h.Client, []invoice{{OrderID: 1}, {OrderID: 2}, {OrderID: 1, Note: "x"}})
	if err != nil || len(receipts) != 3 || !receipts[0].Created() || !receipts[1].Created() || receipts[2].Created() ||
		receipts[2].TaskID != receipts[0].TaskID || receipts[2].Queue != "billing" {
		t.Fatalf("receipts %+v, %v", receipts, err)
	}
	delay := 90 * time.Minute
	outcomes, err := h.EnqueueMany(t.Context(), []pgqueue.Request{
		{TaskName: "a", ActiveKey: "k", Delay: delay, Backoff: 1500 * time.Millisecond, Payload: json.RawMessage(`{"n": 1.0}`)},
		{TaskName: "a", ActiveKey: strings.Repeat("k", 513)},
		{TaskName: "a", ActiveKey: "k"},
	}, pgqueue.BatchOptions{ContinueOnConflict: true})
	if err != nil || len(outcomes) != 3 || !outcomes[0].Created() || !errors.Is(outcomes[1].Err, pgqueue.ErrInvalidKey) ||
		outcomes[2].TaskID != outcomes[0].TaskID {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
	task, err := h.Task(t.Context(), outcomes[0].TaskID)
	if err != nil || task.RunAfter.Sub(task.CreatedAt) != delay || string(task.Payload) != `{"n": 1.0}` || string(task.Policy) != `{"backoff": 1500}` {
		t.Errorf("task %+v, %v", task, err)
	}
	_, err = h.EnqueueMany(t.Context(), []pgqueue.Request{{TaskName: "b"}, {TaskName: "b", ActiveKey: "\x01"}}, pgqueue.BatchOptions{})
	if !errors.Is(err, pgqueue.ErrInvalidKey) || !strings.Contains(err.Error(), "item 2") {
		t.Errorf("error is %v", err)
	}
	if found, err := gen.QueueStats(t.Context(), h.db.Pool(t), gen.QueueStatsParams{}); err != nil || len(found) != 2 {
		t.Errorf("queues: %+v, %v", found, err)
	}
}
