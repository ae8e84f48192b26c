package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const schema = "pgqueue."

// model is the client in terms of Go.
type model struct {
	enums     []enum
	structs   []structType
	functions []function
}

type enum struct {
	name, sql, doc string
	constants      []string
	labels         []string
}

// structType is a row type that some function returns.
type structType struct {
	name, sql, doc string
	fields         []field
}

type field struct {
	name, sql, doc string
	typ            goType
}

type function struct {
	name, sql, doc string
	required       []field
	optional       []field
	result         result
}

type resultKind int

const (
	resultNone resultKind = iota
	resultValue
	resultRow
)

type result struct {
	kind resultKind
	typ  goType
	set  bool
}

// goType is a Go type and what it takes to pass it to and from SQL.
type goType struct {
	name     string
	cast     string
	nullable bool
	enum     bool // a null is the empty string
	pointer  bool // a null is nil
}

func (t goType) String() string {
	if t.pointer {
		return "*" + t.name
	}
	return t.name
}

func (t goType) slice() bool { return strings.HasPrefix(t.name, "[]") || t.name == "json.RawMessage" }

var baseTypes = map[string]goType{
	"text":                     {name: "string", cast: "text"},
	"smallint":                 {name: "int", cast: "smallint"},
	"integer":                  {name: "int", cast: "integer"},
	"bigint":                   {name: "int64", cast: "bigint"},
	"boolean":                  {name: "bool", cast: "boolean"},
	"uuid":                     {name: "uuid.UUID", cast: "uuid"},
	"jsonb":                    {name: "json.RawMessage", cast: "jsonb"},
	"bytea":                    {name: "[]byte", cast: "bytea"},
	"interval":                 {name: "time.Duration", cast: "interval"},
	"timestamp with time zone": {name: "time.Time", cast: "timestamptz"},
}

// arrayElements are the types whose arrays client.go can pass.
var arrayElements = []string{"text", "integer", "smallint", "uuid", "jsonb", "boolean", "interval"}

type builder struct {
	model
	catalog catalog
	enumFor map[string]string // SQL name, Go name
	taken   map[string]string // Go name, what has it
}

func build(c catalog) (model, error) {
	b := builder{catalog: c, enumFor: map[string]string{}, taken: map[string]string{}}
	for _, e := range c.enums {
		if err := b.addEnum(e); err != nil {
			return model{}, err
		}
	}
	for _, f := range c.functions {
		if err := b.addFunction(f); err != nil {
			return model{}, fmt.Errorf("function %s: %w", f.Name, err)
		}
	}
	slices.SortFunc(b.structs, func(a, b structType) int { return strings.Compare(a.sql, b.sql) })
	return b.model, nil
}

// take reserves a Go name: two things of SQL can come to the same one, overloaded functions for instance.
func (b *builder) take(name, sql string) error {
	if other, ok := b.taken[name]; ok {
		return fmt.Errorf("%s and %s would both be %s in Go", other, sql, name)
	}
	b.taken[name] = sql
	return nil
}

func (b *builder) addEnum(e enumRow) error {
	name := camel(e.Name)
	made := enum{name: name, sql: schema + e.Name, doc: e.Comment, labels: e.Labels}
	b.enumFor[schema+e.Name] = name
	if err := b.take(name, made.sql); err != nil {
		return err
	}
	for _, label := range e.Labels {
		constant := name + camel(strings.ToLower(label))
		if err := b.take(constant, made.sql+" "+label); err != nil {
			return err
		}
		made.constants = append(made.constants, constant)
	}
	b.enums = append(b.enums, made)
	return nil
}

func (b *builder) addFunction(f functionRow) error {
	made := function{name: camel(f.Name), sql: schema + f.Name, doc: f.Comment}
	if err := b.take(made.name, made.sql); err != nil {
		return err
	}
	if !f.OnlyIn {
		return fmt.Errorf("it has OUT, TABLE or VARIADIC arguments; return a composite type")
	}
	if len(f.Names) != len(f.Types) {
		return fmt.Errorf("an argument has no name")
	}
	if len(f.Names) > 0 {
		if err := b.take(made.name+"Params", "arguments of "+made.sql); err != nil {
			return err
		}
	}
	for i, name := range f.Names {
		t, err := b.typeOf(f.Types[i], i >= f.Required)
		if err != nil {
			return fmt.Errorf("argument %s: %w", name, err)
		}
		if t.enum {
			t.pointer = i >= f.Required
		}
		arg := field{name: camel(name), sql: name, typ: t}
		if i < f.Required {
			made.required = append(made.required, arg)
		} else {
			made.optional = append(made.optional, arg)
		}
	}
	var err error
	if made.result, err = b.resultOf(f); err != nil {
		return err
	}
	b.functions = append(b.functions, made)
	return nil
}

var saysNull = regexp.MustCompile(`\bor null when\b`)

func (b *builder) resultOf(f functionRow) (result, error) {
	if f.Result == "void" {
		return result{}, nil
	}
	if relation, ok := strings.CutPrefix(f.Result, schema); ok && b.enumFor[f.Result] == "" {
		name, err := b.structFor(relation)
		return result{kind: resultRow, typ: goType{name: name}, set: f.Set}, err
	}
	t, err := b.typeOf(f.Result, saysNull.MatchString(f.Comment))
	return result{kind: resultValue, typ: t, set: f.Set}, err
}

// structFor makes the struct of a row type when the first function asks for it.
func (b *builder) structFor(relation string) (string, error) {
	name := camel(relation)
	if slices.ContainsFunc(b.structs, func(s structType) bool { return s.sql == schema+relation }) {
		return name, nil
	}
	i := slices.IndexFunc(b.catalog.relations, func(r relationRow) bool { return r.Name == relation })
	if i < 0 {
		return "", fmt.Errorf("no row type %s", relation)
	}
	row := b.catalog.relations[i]
	doc, never := neverNull(row.Comment)
	for _, column := range never {
		if !slices.Contains(row.Columns, column) {
			return "", fmt.Errorf("the comment of %s says that %q is never null, but there is no such column", relation, column)
		}
	}
	made := structType{name: name, sql: schema + relation, doc: doc}
	if err := b.take(name, made.sql); err != nil {
		return "", err
	}
	for i, column := range row.Columns {
		t, err := b.typeOf(row.Types[i], !row.NotNull[i] && !slices.Contains(never, column))
		if err != nil {
			return "", fmt.Errorf("column %s of %s: %w", column, relation, err)
		}
		made.fields = append(made.fields, field{name: camel(column), sql: column, doc: row.Comments[i], typ: t})
	}
	b.structs = append(b.structs, made)
	return name, nil
}

func (b *builder) typeOf(sql string, nullable bool) (goType, error) {
	if element, ok := strings.CutSuffix(sql, "[]"); ok {
		if !slices.Contains(arrayElements, element) {
			return goType{}, fmt.Errorf("no Go type for %s", sql)
		}
		base := baseTypes[element]
		if element == "interval" {
			// Where the array's elements are optional too.
			return goType{name: "[]*" + base.name, cast: base.cast + "[]"}, nil
		}
		return goType{name: "[]" + base.name, cast: base.cast + "[]"}, nil
	}
	if name := b.enumFor[sql]; name != "" {
		return goType{name: name, cast: sql, enum: true, nullable: nullable}, nil
	}
	t, ok := baseTypes[sql]
	if !ok {
		return goType{}, fmt.Errorf("no Go type for %s", sql)
	}
	t.nullable, t.pointer = nullable, nullable && !t.slice()
	return t, nil
}

var neverNullLine = regexp.MustCompile(`(?s)^(?:(.*)\n)?Never null: ([^\n]*)\.$`)

// neverNull splits the line that names the columns without nulls off a comment.
func neverNull(comment string) (doc string, columns []string) {
	match := neverNullLine.FindStringSubmatch(strings.TrimSpace(comment))
	if match == nil {
		return comment, nil
	}
	return match[1], strings.Split(match[2], ", ")
}

func camel(sql string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(sql, "_") {
		switch part {
		case "":
		case "id", "ok":
			b.WriteString(strings.ToUpper(part))
		case "ids":
			b.WriteString("IDs")
		default:
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
