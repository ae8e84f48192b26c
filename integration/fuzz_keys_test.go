package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// fuzzHouse is the database of a fuzz target, with a client for each call, in a namespace of its own.
type fuzzHouse struct {
	*env

	calls atomic.Int64
}

func newFuzzHouse(f *testing.F) *fuzzHouse { return &fuzzHouse{env: newEnv(f)} }

func (h *fuzzHouse) client(t *testing.T) (*pgqueue.Client, *env) {
	t.Helper()
	e := *h.env
	e.ns = fmt.Sprintf("fuzz%d", h.calls.Add(1))
	c, err := pgqueue.NewClient(t.Context(), h.pool, pgqueue.Config{Namespace: e.ns})
	if err != nil {
		t.Fatal(err)
	}
	return c, &e
}

// inTransaction wants a refusal to leave the transaction usable, and an accepted task to be there after it.
func (h *fuzzHouse) inTransaction(t *testing.T, c *pgqueue.Client, r pgqueue.Request) (got pgqueue.Receipt, err error) {
	t.Helper()
	failed := pgx.BeginFunc(t.Context(), h.pool, func(tx pgx.Tx) error {
		got, err = c.EnqueueTx(t.Context(), tx, r)
		var one int
		return tx.QueryRow(t.Context(), "select 1").Scan(&one)
	})
	if failed != nil {
		t.Fatalf("the transaction is broken after %v: %v", err, failed)
	}
	return got, err
}

// goodKey is the rule of K1 and K2, as Go sees it.
func goodKey(key string) bool {
	return key != "" && len(key) <= 512 && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

// K1, K2, K3, K4, case_C27, case_C28: any string as an active or window key: stored byte for byte, or ErrInvalidKey from every form, and nothing
// written. The database never answers with another error.
func FuzzKeys(f *testing.F) {
	h := newFuzzHouse(f)
	for _, seed := range []string{
		"k", " k ", "K", "é", "e\u0301", "😀", strings.Repeat("k", 512), strings.Repeat("k", 513), strings.Repeat("😀", 128), strings.Repeat("é", 257),
		"a\x00b", "a\x01b", "\t", "\x7f", "\u0080", "\u009f", "\u00a0", "\u200b", "\ufeff", "\uffff", "\U0010ffff", "\xff", "a\xc3", "\xed\xa0\x80",
		`\`, `"`, `'`, `$1`, "%s", "{}", "null", "\u2028",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, key string, window bool) {
		if key == "" {
			return // for the client, no key
		}
		c, e := h.client(t)
		r := pgqueue.Request{TaskName: "send", ActiveKey: key}
		if window {
			r = pgqueue.Request{TaskName: "send", WindowKey: key, Window: time.Hour}
		}
		calls := map[string]func() (pgqueue.Receipt, error){
			"alone":          func() (pgqueue.Receipt, error) { return c.Enqueue(t.Context(), r) },
			"in transaction": func() (pgqueue.Receipt, error) { return h.inTransaction(t, c, r) },
			"in a batch": func() (pgqueue.Receipt, error) {
				all, err := c.EnqueueMany(t.Context(), []pgqueue.Request{r}, pgqueue.BatchOptions{})
				if err != nil {
					return pgqueue.Receipt{}, err
				}
				return all[0].Receipt, all[0].Err
			},
		}
		if !goodKey(key) {
			for form, call := range calls {
				if _, err := call(); !errors.Is(err, pgqueue.ErrInvalidKey) {
					t.Errorf("%q, %s: %v, want ErrInvalidKey", key, form, err)
				}
			}
			if n := e.rows(t); n != 0 {
				t.Errorf("%q: %d rows were written", key, n)
			}
			return
		}
		ids := map[pgqueue.TaskID]bool{}
		for form, call := range calls {
			got, err := call()
			if err != nil {
				t.Fatalf("%q, %s: %v", key, form, err)
			}
			ids[got.TaskID] = true
		}
		if len(ids) != 1 {
			t.Errorf("%q: %d tasks", key, len(ids))
		}
		stored := value[[]byte](t, h.pool, `select convert_to(coalesce(
			(select window_key from pgqueue.unique_window where namespace = $1::text),
			(select active_key from pgqueue.task where namespace = $1::text)), 'UTF8')`, e.ns)
		if string(stored) != key {
			t.Errorf("%q is stored as %q", key, stored)
		}
		// A key that looks alike is another one.
		for _, other := range []string{key + " ", strings.ToUpper(key) + "x"} {
			near := r
			if window {
				near.WindowKey = other
			} else {
				near.ActiveKey = other
			}
			if goodKey(other) && other != key {
				if got, err := c.Enqueue(t.Context(), near); err != nil || !got.Created() {
					t.Errorf("%q beside %q: %+v, %v", other, key, got, err)
				}
			}
		}
	})
}

// W3, K4: any duration as a window, a delay, or a part of the policy, from every form: a clear error, or stored exactly. A delay counts
// in microseconds, as all times of the database do.
func FuzzIntervals(f *testing.F) {
	h := newFuzzHouse(f)
	const day = 24 * time.Hour
	for _, d := range []time.Duration{
		1, -1, 999, time.Microsecond, -time.Microsecond, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1, time.Millisecond + time.Microsecond,
		-time.Millisecond, time.Second, time.Hour + 1, day, 31 * day, 3650 * day, 3650*day - time.Millisecond, 3650*day + time.Millisecond, 3650*day + 1,
		1<<63 - 1, -1 << 63, 100 * 365 * day,
	} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, nanoseconds int64) {
		d := time.Duration(nanoseconds)
		if d == 0 {
			return // for the client, none
		}
		whole := d > 0 && d%time.Millisecond == 0 && d <= 3650*day
		for name, c := range map[string]struct {
			set    func(r *pgqueue.Request)
			good   bool
			kind   error
			stored string
			want   time.Duration
		}{
			"window": {func(r *pgqueue.Request) { r.WindowKey, r.Window = "w", d }, whole, pgqueue.ErrInvalidWindow,
				"select extract(epoch from expires_at - accepted_at) * 1000000 from pgqueue.unique_window where namespace = $1::text", d},
			"delay": {func(r *pgqueue.Request) { r.Delay = d }, d > -time.Microsecond, pgqueue.ErrInvalidArgument,
				"select extract(epoch from run_after - created_at) * 1000000 from pgqueue.task where namespace = $1::text", d.Truncate(time.Microsecond)},
			"backoff":     {func(r *pgqueue.Request) { r.Backoff = d }, whole, pgqueue.ErrInvalidArgument, policyText("backoff"), d},
			"max_backoff": {func(r *pgqueue.Request) { r.MaxBackoff = d }, whole, pgqueue.ErrInvalidArgument, policyText("max_backoff"), d},
			"timeout":     {func(r *pgqueue.Request) { r.Timeout = d }, whole, pgqueue.ErrInvalidArgument, policyText("timeout"), d},
			"lease":       {func(r *pgqueue.Request) { r.Lease = d }, whole, pgqueue.ErrInvalidArgument, policyText("lease"), d},
		} {
			r := pgqueue.Request{TaskName: "send"}
			c.set(&r)
			for _, form := range []string{"alone", "transaction", "batch"} {
				client, e := h.client(t)
				var err error
				switch form {
				case "alone":
					_, err = client.Enqueue(t.Context(), r)
				case "transaction":
					_, err = h.inTransaction(t, client, r)
				default:
					_, err = client.EnqueueMany(t.Context(), []pgqueue.Request{r}, pgqueue.BatchOptions{})
				}
				if !c.good {
					if !errors.Is(err, c.kind) {
						t.Errorf("%s %d ns, %s: %v, want %v", name, d, form, err, c.kind)
					}
					if n := e.rows(t); n != 0 {
						t.Errorf("%s %d ns, %s: %d rows were written", name, d, form, n)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s %d ns, %s: %v", name, d, form, err)
					continue
				}
				if got := value[int64](t, h.pool, "select ("+c.stored+")::bigint", e.ns); got != c.want.Microseconds() {
					t.Errorf("%s %d ns, %s: stored as %d us", name, d, form, got)
				}
			}
		}
	})
}

// policyText reads a length of the stored policy in microseconds; what is the default is left out of it.
func policyText(member string) string {
	usual := map[string]string{"backoff": "5000", "max_backoff": "3600000"}[member]
	if usual == "" {
		usual = "null"
	}
	return "select coalesce((policy ->> '" + member + "')::bigint, " + usual + ") * 1000 from pgqueue.task where namespace = $1::text"
}

// W5, P2: any instant as a start, from every form: stored to the microsecond, and the same request again, by whatever form, is the same.
func FuzzRunAfter(f *testing.F) {
	h := newFuzzHouse(f)
	for _, s := range []int64{0, 1, -1, 1 << 31, -62135596800, 253402300799, 253402300800, 1 << 50, -1 << 50, 9223372036854, 1<<62 - 1, -1 << 62} {
		f.Add(s, int64(0))
		f.Add(s, int64(1))
		f.Add(s, int64(999_999_999))
	}
	f.Fuzz(func(t *testing.T, seconds, nanoseconds int64) {
		at := time.Unix(seconds, nanoseconds%1_000_000_000)
		if at.IsZero() {
			return // for the client, none
		}
		c, e := h.client(t)
		r := pgqueue.Request{TaskName: "send", WindowKey: "w", Window: time.Hour, RunAfter: at}
		got, err := h.inTransaction(t, c, r)
		all, batchErr := c.EnqueueMany(t.Context(), []pgqueue.Request{r}, pgqueue.BatchOptions{})
		if (err == nil) != (batchErr == nil) {
			t.Fatalf("%s: alone %v, in a batch %v", at, err, batchErr)
		}
		if err != nil {
			if !errors.Is(err, pgqueue.ErrInvalidArgument) || !errors.Is(batchErr, pgqueue.ErrInvalidArgument) {
				t.Errorf("%s: %v, %v, want ErrInvalidArgument", at, err, batchErr)
			}
			if y := at.UTC().Year(); y >= 1 && y <= 9999 {
				t.Errorf("%s: %v", at, err)
			}
			return
		}
		if all[0].TaskID != got.TaskID || !got.RunAfter.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("%s: stored as %s, in a batch %+v", at, got.RunAfter, all[0])
		}
		if task := e.task(t, got.TaskID); !task.RunAfter.Equal(got.RunAfter) {
			t.Errorf("%s: the task says %s", at, task.RunAfter)
		}
	})
}
