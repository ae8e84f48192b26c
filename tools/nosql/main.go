// Command nosql finds SQL in Go source. All SQL of this project lives in
// functions/ and in the generated client, so the packages that it is pointed at
// may hold none but connection settings and LISTEN, each marked in its line:
//
//	_, err := conn.Exec(ctx, "listen "+channel) //sql:connection
//
// Usage: nosql DIR...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const marker = "//sql:connection"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: nosql DIR...")
		os.Exit(2)
	}
	files, found := 0, 0
	for _, dir := range os.Args[1:] {
		paths, err := sources(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		for _, path := range paths {
			findings, err := check(path, nil)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			for _, f := range findings {
				fmt.Println(f)
			}
			files++
			found += len(findings)
		}
	}
	fmt.Printf("%d files, %d findings\n", files, found)
	if files == 0 || found > 0 {
		os.Exit(1)
	}
}

// sources lists the Go files below dir that end up in a program.
func sources(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// check returns the SQL in one file, and the markers that mark nothing. The file
// is read when src is nil.
func check(path string, src any) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}

	unused := map[int]token.Pos{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if text, ok := strings.CutPrefix(c.Text, marker); ok && (text == "" || text[0] == ' ') {
				unused[fset.Position(c.Pos()).Line] = c.Pos()
			}
		}
	}
	marked := make(map[int]bool, len(unused))
	for line := range unused {
		marked[line] = true
	}

	var findings []string
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags[n.Tag] = true
		case *ast.BasicLit:
			if n.Kind != token.STRING || tags[n] {
				return false
			}
			text, err := strconv.Unquote(n.Value)
			if err != nil || !isSQL(text) {
				return false
			}
			// A marker counts at either end of a literal of several lines.
			first, last := fset.Position(n.Pos()).Line, fset.Position(n.End()).Line
			if marked[first] || marked[last] {
				delete(unused, first)
				delete(unused, last)
				return false
			}
			findings = append(findings, fmt.Sprintf("%s: SQL outside functions/ and gen/: %s",
				fset.Position(n.Pos()), abbreviate(text)))
		}
		return true
	})
	for _, pos := range unused {
		findings = append(findings, fmt.Sprintf("%s: %s marks no SQL", fset.Position(pos), marker))
	}
	return findings, nil
}

func abbreviate(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return strconv.Quote(text)
}

// Keywords count in all lower or all upper case. With a capital first letter
// they open an English sentence ("Select a queue").
var statements = func() []*regexp.Regexp {
	const name = `["\w]+(?:\.["\w]+)*`
	lower := []string{
		`select\s+(?:` + name + `\s*\(|` + name + `\.["\w*]+|\*|\$?\d|'|(?s:.*)\sfrom\s)`,
		`select\s+(?:distinct|null|true|false|current_\w+|exists)\b`,
		`insert\s+into\s`,
		`update\s+(?:only\s+)?` + name + `\s+(?:as\s+)?(?:\w+\s+)?set\s`,
		`delete\s+from\s+(?:only\s+)?` + name,
		`merge\s+into\s`,
		`call\s+` + name + `\s*\(`,
		`with\s+(?:recursive\s+)?` + name + `\s*(?:\([^)]*\)\s*)?as\s+(?:not\s+)?(?:materialized\s+)?\(`,
		`values\s*\(`,
		`table\s+` + name + `\.` + name,
		`(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:(?:global|local|temp|temporary|unlogged|unique|materialized)\s+)*` +
			`(?:table|index|view|schema|function|procedure|aggregate|type|domain|extension|database|role|user|trigger|sequence|publication|subscription)\s+(?:if\s|concurrently\s|` + name + `)`,
		`truncate\s+(?:table\s+` + name + `|` + name + `\.` + name + `)`,
		`lock\s+table\s`,
		`(?:grant|revoke)\s+[\w, ]+\s+on\s`,
		`copy\s+(?:` + name + `|\()\s*(?:\([^)]*\)\s*)?(?:from|to)\s`,
		`do\s+(?:language\s+\w+\s+)?\$`,
		`explain\s+(?:\(|analyze\b|verbose\b|select\b|insert\b|update\b|delete\b|with\b)`,
		`(?:vacuum|analyze)(?:\s*\(|\s+(?:full|verbose|freeze)\b|\s+` + name + `\.` + name + `)`,
		`set\s+(?:(?:local|session)\s+)?[\w.]+\s*(?:=|\bto\b)`,
		`set\s+(?:local\s+|session\s+)?(?:role|transaction|session\s+authorization|time\s+zone)\b`,
		`reset\s+(?:all|role|\w+_\w+)\s*;?$`,
		`show\s+(?:all|\w+_\w+)\s*;?$`,
		`discard\s+(?:all|plans|temp|sequences)\s*;?$`,
		`(?:un)?listen(?:\s+(?:` + name + `|\*)?\s*;?)?$`,
		`notify\s+(?:` + name + `)?\s*(?:,|;|$)`,
		`(?:begin|commit|rollback|start\s+transaction)\s*(?:;|$|isolation\s|read\s|to\s+savepoint\s|prepared\s)`,
		`(?:savepoint|release\s+savepoint)\s`,
		`(?:prepare|execute|deallocate|declare)\s+` + name + `\s*(?:\(|as\s|cursor\s)`,
	}
	var res []*regexp.Regexp
	for _, s := range lower {
		res = append(res, regexp.MustCompile(`^(?:`+s+`)`))
	}
	return res
}()

var (
	comments    = regexp.MustCompile(`(?s)^(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)+`)
	keyword     = regexp.MustCompile(`^(?:[a-z]+|[A-Z]+)\b`)
	placeholder = regexp.MustCompile(`\$[1-9]`)
	clause      = regexp.MustCompile(`(?i)(?:=>|::|\b(?:from|where|set|values|limit|returning|any|and|order by)\b)`)
)

// isSQL tells whether a string opens like an SQL statement, or is a fragment of
// one with numbered parameters.
func isSQL(text string) bool {
	if placeholder.MatchString(text) && clause.MatchString(text) {
		return true
	}
	text = comments.ReplaceAllString(text, "")
	text = strings.TrimLeft(text, "( ")
	if !keyword.MatchString(text) {
		return false
	}
	lower := strings.ToLower(text)
	for _, re := range statements {
		if re.MatchString(lower) {
			return true
		}
	}
	return false
}
