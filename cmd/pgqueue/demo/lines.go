package demo

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// maxLine is the longest line that the demo reads.
const maxLine = 16 << 20

type lineReader struct {
	scanner *bufio.Scanner
	number  int
}

func newLineReader(r io.Reader) *lineReader {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &lineReader{scanner: scanner}
}

// next returns a line that stays valid, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	if l.scanner.Scan() {
		l.number++
		return bytes.Clone(l.scanner.Bytes()), nil
	}
	if err := l.scanner.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", l.number+1, err)
	}
	return nil, io.EOF
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// dice is a number that depends on nothing but its arguments, so that a demo of one file always makes the same plan.
func dice(purpose string, text []byte) uint64 {
	h := sha256.New()
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(text)
	return binary.BigEndian.Uint64(h.Sum(nil))
}
