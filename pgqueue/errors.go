package pgqueue

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/gen"
)

// What went wrong, for errors.Is. The details are in *Error, for errors.As.
var (
	// ErrConflict (PQ001): the window key stands for another request. Error.TaskID is the task it was accepted as.
	ErrConflict = errors.New("uniqueness conflict")
	// ErrCompositionConflict (PQ002): the window key points to Error.TaskID, while Error.HolderID holds the active key.
	ErrCompositionConflict = errors.New("uniqueness composition conflict")
	// ErrKeyMismatch (PQ003): a key was given that differs from the one that the task type declares.
	ErrKeyMismatch = errors.New("uniqueness key mismatch")
	// ErrKeyRequired (PQ004): the task type is declared unique, and the call or its payload has no key.
	ErrKeyRequired = errors.New("uniqueness required")
	// ErrKeySelector (PQ005): the declared selector failed on this payload.
	ErrKeySelector = errors.New("key selector failed")
	// ErrInvalidKey (PQ006): a key is empty, longer than 512 bytes, or has control characters.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidWindow (PQ007): the window is missing, not positive, too long, or not in whole milliseconds.
	ErrInvalidWindow = errors.New("invalid window")
	// ErrUnknownTask (PQ008): there is no task with this id.
	ErrUnknownTask = errors.New("unknown task")
	// ErrInvalidState (PQ009): the task or lease is in another state than the call needs.
	ErrInvalidState = errors.New("invalid state")
	// ErrRace (40001, constraint unique_enqueue_race): another transaction was faster with the key, and this one cannot see what
	// it did. Nothing was written. Run the transaction again.
	ErrRace = errors.New("unique enqueue race")
	// ErrInvalidArgument (22023, 22004, 22P02, 22P05): an argument breaks a rule.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrStandby: the server is in recovery. Answers from a standby would be stale.
	ErrStandby = errors.New("pgqueue: the server is a standby in recovery; connect to the primary")
	// ErrSchema: the database has no schema of the queue, or one that is too old.
	ErrSchema = errors.New("pgqueue: the database's schema does not fit")
)

const (
	codeUnknownTask = "PQ008"
	codeRace        = "40001"
	raceConstraint  = "unique_enqueue_race"
)

var sentinels = map[string]error{
	"PQ001": ErrConflict, "PQ002": ErrCompositionConflict, "PQ003": ErrKeyMismatch, "PQ004": ErrKeyRequired, "PQ005": ErrKeySelector,
	"PQ006": ErrInvalidKey, "PQ007": ErrInvalidWindow, codeUnknownTask: ErrUnknownTask, "PQ009": ErrInvalidState,
	"22023": ErrInvalidArgument, "22004": ErrInvalidArgument, "22P02": ErrInvalidArgument, "22P05": ErrInvalidArgument,
	"25006": ErrStandby,
}

// Error is a refusal by the queue's functions. It wraps one of the Err values above, and the server's error if there was one.
type Error struct {
	// Code is the SQLSTATE.
	Code string
	// Message, Detail and Hint are the server's.
	Message, Detail, Hint string
	// TaskID is the task that the window key points to, of ErrConflict and ErrCompositionConflict.
	TaskID *TaskID
	// HolderID is the pending task that holds the active key, of ErrCompositionConflict, and of ErrRace where it is known.
	HolderID *TaskID
	// Cause of ErrRace: key_taken, holder_changed, window_changed, lock_timeout or busy.
	Cause string

	err    error
	server *pgconn.PgError
}

func (e *Error) Error() string { return fmt.Sprintf("pgqueue: %s (%s)", e.Message, e.Code) }

// Unwrap returns the kind of the error, and the server's error.
func (e *Error) Unwrap() []error {
	if e.server == nil {
		return []error{e.err}
	}
	return []error{e.err, e.server}
}

type errorDetail struct {
	TaskID   *uuid.UUID `json:"task_id"`
	HolderID *uuid.UUID `json:"holder_id"`
	Cause    string     `json:"cause"`
	// FreshReadKey is the active key with which a fresh look may find the holder still pending.
	FreshReadKey *string `json:"fresh_read_key"`
}

// detailOf reads the DETAIL of an error, which is JSON in the queue's own errors and prose in the server's.
func detailOf(text string) (d errorDetail) {
	if json.Unmarshal([]byte(text), &d) != nil {
		return errorDetail{}
	}
	return d
}

// wrap turns a server's error that has a meaning here into *Error, and leaves others as they are.
func wrap(err error) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return err
	}
	kind := sentinels[server.Code]
	if server.Code == codeRace && server.ConstraintName == raceConstraint {
		kind = ErrRace
	}
	if kind == nil {
		return err
	}
	d := detailOf(server.Detail)
	return &Error{
		Code: server.Code, Message: server.Message, Detail: server.Detail, Hint: server.Hint,
		TaskID: d.TaskID, HolderID: d.HolderID, Cause: d.Cause, err: kind, server: server,
	}
}

// refusal is the error in a receipt, or nil.
func refusal(r gen.Receipt) error {
	if r.ErrorCode == nil {
		return nil
	}
	kind := sentinels[*r.ErrorCode]
	if *r.ErrorCode == codeRace {
		kind = ErrRace
	}
	if kind == nil {
		kind = errors.New("refused")
	}
	d := detailOf(string(r.ErrorDetail))
	return &Error{
		Code: *r.ErrorCode, Message: value(r.ErrorMessage), Detail: string(r.ErrorDetail),
		TaskID: r.ConflictingTaskID, HolderID: d.HolderID, Cause: d.Cause, err: kind,
	}
}
