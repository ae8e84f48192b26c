package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/pgqueue/pgqueue/gen"
)

// The kinds of items: fit for the set-based path; almost so, or of declared types; everything, mistakes included.
const (
	simpleItems   = "simple"
	declaredItems = "declared"
	allItems      = "all"
)

func drawItem(t *rapid.T, ns *string, kind string) batchItem {
	// text and length give one of the values once in so many times.
	text := func(what string, often int, texts ...string) *string {
		if i := rapid.IntRange(0, often*len(texts)-1).Draw(t, what); i < len(texts) {
			return &texts[i]
		}
		return nil
	}
	length := func(what string, often int, lengths ...time.Duration) *time.Duration {
		if i := rapid.IntRange(0, often*len(lengths)-1).Draw(t, what); i < len(lengths) {
			return &lengths[i]
		}
		return nil
	}
	number := func(what string, often int, numbers ...int) *int {
		if i := rapid.IntRange(0, often*len(numbers)-1).Draw(t, what); i < len(numbers) {
			return &numbers[i]
		}
		return nil
	}
	item := batchItem{Unique: rapid.Bool().Draw(t, "unique"), request: request{
		TaskName: rapid.SampledFrom([]string{"send", "bill"}).Draw(t, "name"), Namespace: ns,
		ActiveKey: text("active", 2, "a", "b", "c"), Queue: text("queue", 2, "q"), Priority: number("priority", 3, 4, 5),
		Delay: length("delay", 3, time.Minute, 1500*time.Microsecond),
	}}
	if p := text("payload", 1, `null`, `1`, `1.0`, `{"id": 1}`, `{"id": "a"}`); p != nil {
		item.Payload = json.RawMessage(*p)
	}
	if m := text("metadata", 3, `{"m": 1}`, `[]`); m != nil {
		item.Metadata = json.RawMessage(*m)
	}
	if kind == simpleItems {
		return item
	}
	if rapid.Bool().Draw(t, "typed") {
		item.TaskName = rapid.SampledFrom([]string{"active", "whole", "window", "required", "defaults"}).Draw(t, "type")
	}
	if kind == declaredItems {
		// One thing that the set-based path leaves to the other.
		switch rapid.IntRange(0, 20).Draw(t, "special") {
		case 0:
			item.ResourceKeys = []string{"r"}
		case 1:
			item.Backoff = ptr(time.Second)
		case 2:
			item.MaxBackoff = ptr(time.Hour)
		case 3:
			item.Lease = ptr(time.Hour)
		case 4:
			item.Timeout = ptr(time.Minute)
		case 5:
			item.WindowLength = ptr(time.Hour)
		case 6:
			item.RunAfter = ptr(at)
		}
		return item
	}
	if item.WindowKey = text("window", 2, "w", "v"); item.WindowKey != nil {
		item.WindowLength = ptr(time.Hour)
	}
	if l := length("length", 8, time.Hour, time.Minute, 0); l != nil {
		item.WindowLength = l
	}
	if name := text("bad name", 8, "", "\x01"); name != nil {
		item.TaskName = *name
	}
	if k := text("bad key", 8, "", "\u0085"); k != nil {
		item.ActiveKey = k
	}
	if p := number("bad priority", 8, 101, -101); p != nil {
		item.Priority = p
	}
	if rapid.IntRange(0, 5).Draw(t, "start") == 0 {
		item.RunAfter = ptr(at)
	}
	item.MaxAttempts = number("attempts", 4, 3, 1, 0)
	item.Backoff = length("backoff", 4, time.Second, 2*time.Second, 0)
	item.Timeout = length("timeout", 4, time.Minute)
	item.Lease = length("lease", 4, time.Minute)
	if k := text("resource", 4, "r", "s", ""); k != nil {
		item.ResourceKeys = []string{*k}
	}
	return item
}

// twin is one of two databases, which get the same requests in two ways.
type twin struct {
	*env
	labels map[string]string // of ids
}

var uuidText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// label names ids by the order of their appearance.
func (w *twin) label(text string) string {
	return uuidText.ReplaceAllStringFunc(text, func(id string) string {
		if w.labels[id] == "" {
			w.labels[id] = fmt.Sprintf("task %d", len(w.labels)+1)
		}
		return w.labels[id]
	})
}

func (w *twin) answers(receipts []gen.Receipt) string {
	var all []string
	for _, r := range receipts {
		all = append(all, w.label(show(r)))
	}
	return strings.Join(all, "\n")
}

// single is an item by itself.
func (w *twin) single(ctx context.Context, db gen.DB, i batchItem) (gen.Receipt, error) {
	if i.Unique {
		return gen.TryEnqueueUnique(ctx, db, gen.TryEnqueueUniqueParams(i.request))
	}
	return gen.TryEnqueue(ctx, db, gen.TryEnqueueParams(i.request))
}

// stored is everything in the namespace.
func (w *twin) stored(ctx context.Context) ([]string, error) {
	rows, err := w.pool.Query(ctx, `
		select 'task ' || to_jsonb(t)::text from pgqueue.task t where t.namespace = $1::text
		union all select 'lock ' || to_jsonb(l)::text from pgqueue.unique_lock l where l.namespace = $1::text
		union all select 'window ' || to_jsonb(w)::text from pgqueue.unique_window w where w.namespace = $1::text`, w.ns)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	slices.Sort(all)
	return all, err
}

// labelled is what is stored, comparable with the other twin once the answers have given the ids their names.
func (w *twin) labelled(stored []string) string {
	all := make([]string, len(stored))
	for i, row := range stored {
		all[i] = w.label(row)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// before brings one of several states about: pending, settled and forgotten holders.
func (w *twin) before(ctx context.Context, items []batchItem, discard []bool) error {
	for i, item := range items {
		got, err := w.single(ctx, w.pool, item)
		if err != nil {
			return err
		}
		w.label(show(got))
		if discard[i] && got.Disposition == gen.DispositionCreated {
			if err := gen.Discard(ctx, w.pool, gen.DiscardParams{TaskID: *got.TaskID, Namespace: &w.ns}); err != nil {
				return err
			}
		}
	}
	return nil
}

const differentialTypes = `
	select pgqueue.declare_task('active', active_key_selector => '$.id', queue => 'typed', namespace => $1::text);
	select pgqueue.declare_task('whole', active_key_selector => '$', priority => 7, namespace => $1::text);
	select pgqueue.declare_task('window', window_key_selector => '$.id', window_length => '1 hour', namespace => $1::text);
	select pgqueue.declare_task('required', active_key_required => true, namespace => $1::text);
	select pgqueue.declare_task('defaults', queue => 'typed', priority => 3, max_attempts => 4, backoff => '7 s', max_payload_bytes => 10, namespace => $1::text)`

// B1, B2, B3: one batch through enqueue_many in one database, and item by item through try_enqueue and try_enqueue_unique in
// another, with the same clock and the same state before: the same answers and the same rows in all but the ids. A
// part of the batches goes the set-based way.
func TestB1_B3_SameAnswersAsOneByOne(t *testing.T) {
	t.Parallel()
	var twins [2]*env
	for i := range twins {
		e, clock := newClockEnv(t)
		clock.stop(t, noon)
		twins[i] = e
	}
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		var sides [2]*twin
		for i := range sides {
			sides[i] = &twin{twins[i].scope(), map[string]string{}}
			for statement := range strings.SplitSeq(differentialTypes, ";") {
				if _, err := sides[i].pool.Exec(ctx, statement, sides[i].ns); err != nil {
					rt.Fatal(err)
				}
			}
		}
		batch, single := sides[0], sides[1]
		ns := &batch.ns // the same in both
		kind := rapid.SampledFrom([]string{simpleItems, declaredItems, allItems, allItems}).Draw(rt, "kind")
		draw := rapid.Custom(func(t *rapid.T) batchItem { return drawItem(t, ns, kind) })
		early := rapid.SliceOfN(draw, 0, 4).Draw(rt, "before")
		discard := rapid.SliceOfN(rapid.Bool(), len(early), len(early)).Draw(rt, "discarded")
		items := rapid.SliceOfN(draw, 1, 8).Draw(rt, "items")
		onConflict := rapid.Bool().Draw(rt, "continue")

		for _, side := range sides {
			if err := side.before(ctx, early, discard); err != nil {
				rt.Fatal(err)
			}
		}
		emptyHanded, err := batch.stored(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		want := make([]gen.Receipt, len(items))
		refused := -1
		for i, item := range items {
			if want[i], err = single.single(ctx, single.pool, item); err != nil {
				rt.Fatalf("item %d: %v", i+1, err)
			}
			want[i].Ordinal = i + 1
			if want[i].ErrorCode != nil && refused < 0 {
				refused = i
			}
		}
		p := batch.batch(items)
		p.ContinueOnConflict = &onConflict
		got, err := gen.EnqueueMany(ctx, batch.pool, p)
		stored, storedErr := batch.stored(ctx)
		if storedErr != nil {
			rt.Fatal(storedErr)
		}
		if refused >= 0 && !onConflict {
			var failed *pgconn.PgError
			message := fmt.Sprintf("item %d: ", refused+1)
			if !errors.As(err, &failed) || failed.Code != *want[refused].ErrorCode || !strings.HasPrefix(failed.Message, message) {
				rt.Fatalf("the batch ends with %v, item by item %s", err, show(want[refused]))
			}
			if !slices.Equal(stored, emptyHanded) {
				rt.Fatalf("the refused batch has written: before\n%q\nafter\n%q", emptyHanded, stored)
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		if b, s := batch.answers(got), single.answers(want); b != s {
			rt.Fatalf("the batch answers\n%s\nitem by item\n%s", b, s)
		}
		other, err := single.stored(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		if b, s := batch.labelled(stored), single.labelled(other); b != s {
			rt.Fatalf("the batch stores\n%s\nitem by item\n%s", b, s)
		}
		checkInvariants(t, batch.pool)
	})
}
