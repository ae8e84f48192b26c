package integration_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/gen"
)

// keyVector is an entry of testdata/unique_key_vectors.json, which other languages read too. Key is
// hex(sha256(canonical)), canonical the canonical JSON of [namespace, task, queue, payload].
type keyVector struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Queue     string `json:"queue"`
	Payload   string `json:"payload"` // JSON text as a client would send it
	Canonical string `json:"canonical"`
	Key       string `json:"key"`
	SameAs    string `json:"same_as,omitempty"` // name of another vector with the same key
}

func readVectors(t *testing.T) []keyVector {
	t.Helper()
	text, err := os.ReadFile("testdata/unique_key_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []keyVector `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 30 {
		t.Fatalf("only %d vectors", len(file.Vectors))
	}
	return file.Vectors
}

// A8, case_C31: the derived key of the published vectors, computed by the database and, independently, here.
func TestA8_Vectors(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got, err := gen.UniqueKey(t.Context(), e.pool, gen.UniqueKeyParams{
				TaskName: v.Task, Payload: json.RawMessage(v.Payload), Queue: &v.Queue, Namespace: &v.Namespace})
			if err != nil || got != v.Key {
				t.Errorf("unique_key gives %v, %v; want %s", got, err, v.Key)
			}
			canonical := value[string](t, e.pool, "select jsonb_build_array($1::text, $2::text, $3::text, $4::text::jsonb)::text",
				v.Namespace, v.Task, v.Queue, v.Payload)
			if canonical != v.Canonical {
				t.Errorf("the database writes %s, want %s", canonical, v.Canonical)
			}
			if canonical = canonicalRequest(t, v); canonical != v.Canonical {
				t.Errorf("canonical JSON made here is %s, want %s", canonical, v.Canonical)
			}
			if sum := sha256.Sum256([]byte(v.Canonical)); hex.EncodeToString(sum[:]) != v.Key {
				t.Errorf("the SHA-256 is %x, want %s", sum, v.Key)
			}
		})
	}
}

// A8: the vectors that must agree do, and no others.
func TestA8_VectorsAgreeOnlyWhereTheySay(t *testing.T) {
	t.Parallel()
	byKey, byName := map[string][]string{}, map[string]keyVector{}
	for _, v := range readVectors(t) {
		if _, twice := byName[v.Name]; twice {
			t.Errorf("two vectors are named %s", v.Name)
		}
		byName[v.Name] = v
		if v.SameAs == "" && byKey[v.Key] != nil {
			t.Errorf("%s has the key of %s", v.Name, byKey[v.Key])
		} else if v.SameAs != "" && !slices.Contains(byKey[v.Key], v.SameAs) {
			t.Errorf("%s has not the key of %s", v.Name, v.SameAs)
		}
		byKey[v.Key] = append(byKey[v.Key], v.Name)
	}
}

// A8: the gate takes the derived key: vectors with one key give one task, and the key may be given by hand.
func TestA8_TheGateDerivesTheKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	holders := map[string]gen.Receipt{}
	for _, v := range readVectors(t) {
		r := request{TaskName: v.Task, Payload: json.RawMessage(v.Payload), Queue: &v.Queue, Namespace: &v.Namespace}
		got := e.enqueue(t, r)
		if holder, held := holders[v.Key]; held {
			wantReused(t, got, *holder.TaskID, gen.DuplicateMatchActive)
		} else {
			wantCreated(t, got)
			holders[v.Key] = got
		}
		// priority and start are no part of the key.
		r.Priority, r.Delay = ptr(3), ptr(time.Hour)
		wantReused(t, e.enqueue(t, r), *holders[v.Key].TaskID, gen.DuplicateMatchActive)
		byHand := request{TaskName: v.Task, ActiveKey: &v.Key, Namespace: &v.Namespace}
		wantReused(t, e.enqueue(t, byHand), *holders[v.Key].TaskID, gen.DuplicateMatchActive)
	}
	checkInvariants(t, e.pool)
}

// A8: a left out payload is JSON null, a left out queue and namespace are 'default'.
func TestA8_Defaults(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	short, err := gen.UniqueKey(t.Context(), e.pool, gen.UniqueKeyParams{TaskName: "send"})
	if err != nil {
		t.Fatal(err)
	}
	long, err := gen.UniqueKey(t.Context(), e.pool, gen.UniqueKeyParams{
		TaskName: "send", Payload: json.RawMessage("null"), Queue: ptr("default"), Namespace: ptr("default")})
	if err != nil || short != long {
		t.Errorf("%s and %s, %v", short, long, err)
	}
	holder := e.create(t, request{TaskName: "send"})
	wantReused(t, e.enqueue(t, request{TaskName: "send", ActiveKey: &short}), holder, gen.DuplicateMatchActive)
}

func canonicalRequest(t *testing.T, v keyVector) string {
	t.Helper()
	parts := []string{}
	for _, text := range []string{v.Namespace, v.Task, v.Queue} {
		parts = append(parts, canonicalString(text))
	}
	decoder := json.NewDecoder(strings.NewReader(v.Payload))
	decoder.UseNumber()
	var payload any
	if err := decoder.Decode(&payload); err != nil {
		t.Fatal(err)
	}
	return "[" + strings.Join(append(parts, canonicalJSON(payload)), ", ") + "]"
}

// canonicalJSON writes JSON as the text of jsonb: object keys by length, then by bytes, the last of equal ones; one space after
// commas and colons; numbers with their digits.
func canonicalJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		if v {
			return "true"
		}
		return "false"
	case json.Number:
		return canonicalNumber(v.String())
	case string:
		return canonicalString(v)
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			parts[i] = canonicalJSON(element)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	object := v.(map[string]any)
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = canonicalString(name) + ": " + canonicalJSON(object[name])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
