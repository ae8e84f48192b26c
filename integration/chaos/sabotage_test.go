package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A worker process is the program again, and here that is the test.
func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		if err := workerMain(spec, os.Stdin); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// edit makes SQL that replaces a part of a function's text, and fails where the part is not there.
func edit(function, from, to string) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	return `do $do$
declare
	v_text text := pg_get_functiondef(` + quote(function) + `::regproc);
begin
	if strpos(v_text, ` + quote(from) + `) = 0 then
		raise 'there is nothing to break in ` + function + `';
	end if;
	execute replace(v_text, ` + quote(from) + `, ` + quote(to) + `);
end
$do$;
`
}

// A queue that is broken on purpose must be found out, and one that is not must pass.
func TestSabotage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	kills := plan{name: "kills and stops", tasks: 2500, length: 9 * time.Second, kills: 4, stops: 5}
	restarts := plan{name: "server restarts", tasks: 2500, length: 5 * time.Second, restarts: 4}
	network := plan{name: "network", tasks: 500, length: 4 * time.Second, network: 1, cutCommits: true}
	for _, c := range []struct {
		name     string
		plan     plan
		settings map[string]string
		sabotage string
		want     []string // one of them
	}{
		{name: "nothing", plan: plan{name: "all but failover", tasks: 2500, length: 8 * time.Second, kills: 3, stops: 2, terminations: 10, restarts: 1, network: 2, cutCommits: true}},
		{name: "outcomes are not fenced", plan: kills, want: []string{"SUCCESSFUL under lease number"},
			sabotage: edit("pgqueue.complete_many", "t.lease_number = u.lease_number", "t.lease_number >= u.lease_number")},
		{name: "a settled task can be settled again", plan: kills, want: []string{"settled twice"},
			sabotage: edit("pgqueue.complete_many", "and t.status in ('RUNNING', 'LOST')", "") +
				edit("pgqueue.complete_many", "t.lease_number = u.lease_number", "t.lease_number >= u.lease_number")},
		{name: "leases are reaped that live", plan: kills, want: []string{"without a fault"},
			sabotage: edit("pgqueue.reap_lost", "l.expires_at <= v_now", "l.expires_at <= v_now + interval '1.8 s'")},
		{name: "what was committed is not on disk", plan: restarts, want: []string{"lost: ", "twice under one lease number"},
			settings: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}},
		{name: "a window key does not last", plan: network, want: []string{"and the retry got CREATED"},
			sabotage: edit("pgqueue._window_gate", "v_open := coalesce(v_now < v_seen.expires_at, false)", "v_open := false")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := round{out: t.Output(), seed: 1, plans: []plan{c.plan}, settings: c.settings, sabotage: c.sabotage}.run(t.Context())
			found := slices.ContainsFunc(s.findings, func(f string) bool {
				return slices.ContainsFunc(c.want, func(want string) bool { return strings.Contains(f, want) })
			})
			switch {
			case c.want == nil && (err != nil || len(s.findings) > 0):
				t.Errorf("%v, found %q", err, s.findings)
			case c.want != nil && !found:
				t.Errorf("%v, found %q, want %q", err, s.findings[:min(10, len(s.findings))], c.want)
			}
		})
	}
}
