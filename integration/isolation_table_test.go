package integration_test

// isolationCell is one cell of the isolation matrix (I6). The documentation prints this table.
type isolationCell struct {
	state  string // of the key's holder, see isolationStates
	level  string
	answer string // CREATED, REUSED or race
	cause  string // of a race: error_detail ->> 'cause'
}

// isolationStates explains the states. "After" is after the snapshot of the transaction that enqueues; READ COMMITTED has a new
// snapshot in each statement. Pending is READY or RUNNING, settled any other status.
var isolationStates = []struct{ state, meaning string }{
	{"none", "nobody ever held the key"},
	{"uncommitted", "another transaction has enqueued the key, and commits while the call waits for it"},
	{"rolled back", "another transaction has enqueued the key, and rolls back while the call waits for it"},
	{"pending unchanged", "the holder is pending, and nothing has happened since the snapshot"},
	{"pending being written", "the holder is pending, and another transaction has written its row without committing"},
	{"pending changed", "the holder is pending, and was claimed after the snapshot"},
	{"settled before", "the holder settled before the snapshot"},
	{"settled after", "the holder was pending in the snapshot and settled after it"},
	{"retried after", "the holder was settled in the snapshot and an operator retried it after it"},
	{"pruned before", "the holder was pruned before the snapshot"},
	{"pruned after", "the holder was settled in the snapshot and pruned after it"},
	{"key taken after", "nobody held the key in the snapshot, and another transaction enqueued it after it"},
	{"moved on", "the holder was settled in the snapshot, and another transaction took the key over after it"},
}

var isolationTable = []isolationCell{
	{"none", readCommitted, "CREATED", ""},
	{"none", repeatableRead, "CREATED", ""},
	{"none", serializable, "CREATED", ""},

	{"uncommitted", readCommitted, "REUSED", ""},
	{"uncommitted", repeatableRead, "race", "key_taken"},
	{"uncommitted", serializable, "race", "key_taken"},

	{"rolled back", readCommitted, "CREATED", ""},
	{"rolled back", repeatableRead, "CREATED", ""},
	{"rolled back", serializable, "CREATED", ""},

	{"pending unchanged", readCommitted, "REUSED", ""},
	{"pending unchanged", repeatableRead, "REUSED", ""},
	{"pending unchanged", serializable, "REUSED", ""},

	{"pending being written", readCommitted, "REUSED", ""},
	{"pending being written", repeatableRead, "REUSED", ""},
	{"pending being written", serializable, "REUSED", ""},

	// The SQL functions alone, without a connection for the fresh read (I4).
	{"pending changed", readCommitted, "REUSED", ""},
	{"pending changed", repeatableRead, "race", "holder_changed"},
	{"pending changed", serializable, "race", "holder_changed"},

	{"settled before", readCommitted, "CREATED", ""},
	{"settled before", repeatableRead, "CREATED", ""},
	{"settled before", serializable, "CREATED", ""},

	{"settled after", readCommitted, "CREATED", ""},
	{"settled after", repeatableRead, "race", "holder_changed"},
	{"settled after", serializable, "race", "holder_changed"},

	{"retried after", readCommitted, "REUSED", ""},
	{"retried after", repeatableRead, "race", "holder_changed"},
	{"retried after", serializable, "race", "holder_changed"},

	{"pruned before", readCommitted, "CREATED", ""},
	{"pruned before", repeatableRead, "CREATED", ""},
	{"pruned before", serializable, "CREATED", ""},

	{"pruned after", readCommitted, "CREATED", ""},
	{"pruned after", repeatableRead, "race", "holder_changed"},
	{"pruned after", serializable, "race", "holder_changed"},

	{"key taken after", readCommitted, "REUSED", ""},
	{"key taken after", repeatableRead, "race", "key_taken"},
	{"key taken after", serializable, "race", "key_taken"},

	{"moved on", readCommitted, "REUSED", ""},
	{"moved on", repeatableRead, "race", "holder_changed"},
	{"moved on", serializable, "race", "holder_changed"},
}

// windowIsolationTable is the same for window keys alone (I8).
var windowIsolationTable = []isolationCell{
	{"none", readCommitted, "CREATED", ""},
	{"none", repeatableRead, "CREATED", ""},
	{"none", serializable, "CREATED", ""},

	{"uncommitted", readCommitted, "REUSED", ""},
	{"uncommitted", repeatableRead, "race", "window_changed"},
	{"uncommitted", serializable, "race", "window_changed"},

	{"rolled back", readCommitted, "CREATED", ""},
	{"rolled back", repeatableRead, "CREATED", ""},
	{"rolled back", serializable, "CREATED", ""},

	{"open", readCommitted, "REUSED", ""},
	{"open", repeatableRead, "REUSED", ""},
	{"open", serializable, "REUSED", ""},

	{"open, its task claimed after", readCommitted, "REUSED", ""},
	{"open, its task claimed after", repeatableRead, "REUSED", ""},
	{"open, its task claimed after", serializable, "REUSED", ""},

	{"being removed", readCommitted, "REUSED", ""},
	{"being removed", repeatableRead, "REUSED", ""},
	{"being removed", serializable, "REUSED", ""},

	{"written after", readCommitted, "REUSED", ""},
	{"written after", repeatableRead, "race", "window_changed"},
	{"written after", serializable, "race", "window_changed"},

	{"removed after", readCommitted, "CREATED", ""},
	{"removed after", repeatableRead, "race", "window_changed"},
	{"removed after", serializable, "race", "window_changed"},

	{"expired before", readCommitted, "CREATED", ""},
	{"expired before", repeatableRead, "CREATED", ""},
	{"expired before", serializable, "CREATED", ""},

	{"expired after", readCommitted, "CREATED", ""},
	{"expired after", repeatableRead, "CREATED", ""},
	{"expired after", serializable, "CREATED", ""},

	{"expired, being taken over", readCommitted, "REUSED", ""},
	{"expired, being taken over", repeatableRead, "race", "window_changed"},
	{"expired, being taken over", serializable, "race", "window_changed"},

	{"expired, taken over after", readCommitted, "REUSED", ""},
	{"expired, taken over after", repeatableRead, "race", "window_changed"},
	{"expired, taken over after", serializable, "race", "window_changed"},

	{"expired, pruned after", readCommitted, "CREATED", ""},
	{"expired, pruned after", repeatableRead, "race", "window_changed"},
	{"expired, pruned after", serializable, "race", "window_changed"},
}
