package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func sample() catalog {
	return catalog{
		enums: []enumRow{{Name: "state", Comment: "A state.", Labels: []string{"OK", "NOT_YET"}}},
		relations: []relationRow{{
			Name: "item", Comment: "An item.\nNever null: id, state.",
			Columns:  []string{"id", "state", "was", "note", "body", "owner_ids", "number"},
			Types:    []string{"uuid", "pgqueue.state", "pgqueue.state", "text", "jsonb", "uuid[]", "smallint"},
			Comments: []string{"", "", "", "For people.", "", "", ""},
			NotNull:  []bool{false, false, false, false, false, false, true},
		}},
		functions: []functionRow{
			{
				Name: "find", Comment: "Finds.\nA second paragraph.", Names: []string{"name", "state", "bodies", "max_age"},
				Types: []string{"text", "pgqueue.state", "jsonb[]", "interval"}, Required: 2, OnlyIn: true, Result: "pgqueue.item", Set: true,
			},
			{Name: "holder", Comment: "The holder, or null when there is none.", OnlyIn: true, Result: "uuid"},
			{Name: "stop", OnlyIn: true, Names: []string{"state"}, Types: []string{"pgqueue.state"}, Result: "void"},
		},
	}
}

func generated(t *testing.T, c catalog) string {
	t.Helper()
	m, err := build(c)
	if err != nil {
		t.Fatal(err)
	}
	source, err := emit(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

func TestGenerated(t *testing.T) {
	source := generated(t, sample())
	for _, want := range []string{
		"\tStateOK     State = \"OK\"\n\tStateNotYet State = \"NOT_YET\"\n",
		"// Item is a row of pgqueue.item.\n//\n// An item.\ntype Item struct {\n",
		"\tID    uuid.UUID\n\tState State\n\tWas   State\n\t// For people.\n\tNote     *string\n\tBody     json.RawMessage\n" +
			"\tOwnerIDs []uuid.UUID\n\tNumber   int\n",
		`"r.id, r.state::text, coalesce(r.was::text, ''), r.note, r.body, r.owner_ids, r.number"`,
		"type FindParams struct {\n\tName  string\n\tState State\n\n\tBodies []json.RawMessage\n\tMaxAge *time.Duration\n}",
		"// Find calls pgqueue.find.\n//\n// Finds.\n//\n// A second paragraph.\nfunc Find(ctx context.Context, db DB, p FindParams) ([]Item, error) {",
		`a.add("state", "pgqueue.state", p.State)`,
		`optionalSlice(&a, "bodies", "jsonb[]", p.Bodies)`,
		`optional(&a, "max_age", "interval", p.MaxAge)`,
		"func Holder(ctx context.Context, db DB) (*uuid.UUID, error) {",
		"func Stop(ctx context.Context, db DB, p StopParams) error {",
	} {
		if !strings.Contains(source, want) {
			t.Errorf("missing:\n%s", want)
		}
	}
	if strings.Contains(source, "Never null") {
		t.Error("the line about nulls is for the generator only")
	}
	if again := generated(t, sample()); again != source {
		t.Error("two runs differ")
	}
	if t.Failed() {
		t.Log(source)
	}
}

func TestRefusedCatalogs(t *testing.T) {
	for want, change := range map[string]func(c *catalog){
		"function find: argument name: no Go type for money": func(c *catalog) { c.functions[0].Types[0] = "money" },
		"no Go type for bytea[]":                             func(c *catalog) { c.functions[0].Types[0] = "bytea[]" },
		"OUT, TABLE or VARIADIC":                             func(c *catalog) { c.functions[0].OnlyIn = false },
		"an argument has no name":                            func(c *catalog) { c.functions[0].Names = nil },
		"would both be Holder":                               func(c *catalog) { c.functions = append(c.functions, c.functions[1]) },
		"would both be Item":                                 func(c *catalog) { c.functions[0].Name = "item" },
		"no row type nothing":                                func(c *catalog) { c.functions[0].Result = "pgqueue.nothing" },
		`says that "ip" is never null`:                       func(c *catalog) { c.relations[0].Comment = "Never null: ip." },
	} {
		c := sample()
		change(&c)
		if _, err := build(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestNeverNull(t *testing.T) {
	for comment, want := range map[string][]string{
		"Text.":                                 nil,
		"Text.\nNever null: a, b_c.":            {"a", "b_c"},
		"Never null: a.":                        {"a"},
		"Text. Never null: a.":                  nil,
		"Never null: a.\nNot in the last line.": nil,
	} {
		doc, columns := neverNull(comment)
		if !reflect.DeepEqual(columns, want) {
			t.Errorf("%q: got %q, want %q", comment, columns, want)
		}
		if want == nil && doc != comment {
			t.Errorf("%q became %q", comment, doc)
		}
	}
}

func TestDifference(t *testing.T) {
	for _, c := range [][3]string{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\n", "a\nc\n", "line 2:\n- b\n+ c"},
		{"", "a\n", "line 1:\n- \n+ a"},
		{"a\nb", "a", "line 2:\n- b\n+ (end of file)"},
	} {
		if got := difference([]byte(c[0]), []byte(c[1])); got != c[2] {
			t.Errorf("%q, %q: got %q", c[0], c[1], got)
		}
	}
}

func TestWrapped(t *testing.T) {
	var b bytes.Buffer
	emitter{&b}.wrapped(strings.Repeat("äbc ", 50) + strings.Repeat("x", 200))
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > lineWidth+1 && !strings.Contains(line, "x") {
			t.Errorf("too long: %s", line)
		}
	}
	if words := strings.Fields(strings.ReplaceAll(b.String(), "//", "")); len(words) != 51 {
		t.Errorf("%d words", len(words))
	}
}
