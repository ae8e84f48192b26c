package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/cmd/pgqueue/hammer"
	"github.com/pgqueue/pgqueue/integration/pgtest"
)

// beat runs the hammer on a database of its own.
func beat(t *testing.T, o hammer.Options, before ...string) (string, error) {
	t.Helper()
	db := pgtest.New(t)
	conn := db.Conn(t)
	for _, statement := range before {
		exec(t, conn, statement)
	}
	var out bytes.Buffer
	o.DatabaseURL, o.Out, o.Log = db.URL(), &out, t.Output()
	err := hammer.Run(t.Context(), o)
	if n := value[int](t, conn, "select count(*) from pgqueue.task"); err == nil && n != 0 {
		t.Errorf("%d tasks are left behind", n)
	}
	return out.String(), err
}

var hammerLine = regexp.MustCompile(`(?m)^hammer: .*, errors 0, violations 0: ok\n\z`)

// A1, A10, A18, I1, case_C04: many sessions, few keys, workers at it: every call answers with one task, and no two tasks of one key
// are ever pending. The full size is a command: pgqueue hammer.
func TestA10_Case_C04_Hammer(t *testing.T) {
	t.Parallel()
	out, err := beat(t, hammer.Options{Sessions: 16, Keys: 10, Workers: 4, Duration: 500 * time.Millisecond})
	if err != nil || !hammerLine.MatchString(out) {
		t.Errorf("%s%v", out, err)
	}
}

// B4, case_C45: batches in opposite orders, while workers free their keys. The full size is pgqueue hammer --batches.
func TestB4_Case_C45_Hammer(t *testing.T) {
	t.Parallel()
	out, err := beat(t, hammer.Options{Sessions: 8, Keys: 8, Workers: 2, Batches: true, Rounds: 25})
	if err != nil || !hammerLine.MatchString(out) || !strings.Contains(out, "200 batches, 1600 items") {
		t.Errorf("%s%v", out, err)
	}
	var log bytes.Buffer
	db := pgtest.New(t)
	var summary struct {
		Batches, Calls, Created, Reused, Refused int
		OK                                       bool
	}
	var text bytes.Buffer
	err = hammer.Run(t.Context(), hammer.Options{DatabaseURL: db.URL(), Sessions: 2, Keys: 2, Workers: 1, Batches: true, Rounds: 2, JSON: true, Out: &text, Log: &log})
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &summary)
	}
	if err != nil || !summary.OK || summary.Batches != 4 || summary.Calls != 8 || summary.Created+summary.Reused+summary.Refused != 8 ||
		!hammerLine.MatchString(log.String()) {
		t.Errorf("%s, %+v, %s%v", text.String(), summary, log.String(), err)
	}
}

// A hammer that finds nothing must not be one that cannot: it sees each of these faults.
func TestHammerFindsFaults(t *testing.T) {
	t.Parallel()
	byKey := hammer.Options{Sessions: 8, Keys: 3, Workers: 4, Duration: time.Minute, FailFast: true}
	batches := hammer.Options{Sessions: 8, Keys: 6, Workers: 1, Batches: true, Rounds: 1000, FailFast: true}
	for name, fault := range map[string]struct {
		options hammer.Options
		sql     string
		want    string
	}{
		"keys that are no keys": {byKey, `create or replace function pgqueue._lock_key(p_task_name text, p_active_key text) returns bytea language sql volatile as
			$$ select case when p_active_key is not null then uuid_send(gen_random_uuid()) end $$`, "of the same key was claimed"},
		"a task without its key": {byKey, `create function public.fault() returns trigger language plpgsql as $$
			begin delete from pgqueue.unique_lock where task_id = new.id; return new; end $$;
			create trigger fault after insert on pgqueue.task for each row execute function public.fault()`, "of the same key was claimed|ran all the time|a pending task holds its active key"},
		"an error": {byKey, `create function public.fault() returns trigger language plpgsql as $$
			begin raise 'fault'; end $$;
			create trigger fault before insert on pgqueue.task for each row execute function public.fault()`, "error: ERROR: fault"},
		"no order among batches": {batches, `create or replace function pgqueue._batch_locks(p_items pgqueue._item[], p_declared boolean, p_set boolean)
			returns void language sql as 'select'`, "deadlocks [1-9]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := beat(t, fault.options, strings.SplitAfter(fault.sql, "$$;")...)
			if !errors.Is(err, hammer.ErrNotOK) || !regexp.MustCompile(fault.want).MatchString(out) || !strings.HasSuffix(out, ": FAILED\n") {
				t.Errorf("%s%v; want a report of %q", out, err, fault.want)
			}
		})
	}
	for _, o := range []hammer.Options{{}, {Sessions: 1, Keys: 1}, {Sessions: 1, Keys: 1, Batches: true}, {Sessions: 1, Keys: 0, Duration: 1}, {Sessions: 1, Keys: 1, Workers: -1, Duration: 1}} {
		if err := hammer.Run(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
