package pgqueue

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// checkJSON refuses what PostgreSQL's jsonb cannot hold: bad syntax, U+0000, lone surrogates, bytes that are not UTF-8, numbers
// beyond numeric.
func checkJSON(what string, text json.RawMessage) error {
	if text == nil {
		return nil
	}
	if !utf8.Valid(text) {
		return invalidArgument("%s is not valid UTF-8", what)
	}
	if !json.Valid(text) {
		return invalidArgument("%s is not valid JSON: %s", what, clip(text))
	}
	if bad := badEscape(text); bad != "" {
		return invalidArgument("%s has %s, which PostgreSQL's JSON cannot hold", what, bad)
	}
	if bad := badNumber(text); bad != nil {
		return invalidArgument("%s has the number %s, which PostgreSQL's JSON cannot hold", what, clip(bad))
	}
	return nil
}

// badNumber returns the first number in valid JSON text that is too large or too fine for PostgreSQL's numeric, or nil.
func badNumber(text []byte) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
				end++
			}
			if !fitsNumeric(string(text[i:end])) {
				return text[i:end]
			}
			i = end - 1
		}
	}
	return nil
}

// fitsNumeric knows the limits of numeric: 131,072 digits before the point and 16,383 after it.
func fitsNumeric(number string) bool {
	const mostBefore, mostAfter, mostExponent = 131072, 16383, 1<<30 - 2
	number = strings.TrimPrefix(number, "-")
	exponent := 0
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		var err error
		if exponent, err = strconv.Atoi(number[e+1:]); err != nil || exponent > mostExponent || exponent < -mostExponent {
			return false
		}
		number = number[:e]
	}
	integer, fraction, _ := strings.Cut(number, ".")
	if len(fraction)-exponent > mostAfter {
		return false
	}
	digits := strings.TrimLeft(integer+fraction, "0")
	return digits == "" || len(digits)-len(fraction)+exponent <= mostBefore
}

// badEscape returns the first escape in valid JSON text that jsonb refuses, or "".
func badEscape(text []byte) string {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return ""
		}
		text = text[i:]
		if text[1] != 'u' {
			text = text[2:]
			continue
		}
		unit := hexUnit(text)
		switch {
		case unit == 0:
			return `\u0000`
		case unit >= 0xd800 && unit < 0xdc00:
			if next := hexUnit(text[6:]); next < 0xdc00 || next > 0xdfff {
				return "the lone surrogate " + string(text[:6])
			}
			text = text[12:]
		case unit >= 0xdc00 && unit <= 0xdfff:
			return "the lone surrogate " + string(text[:6])
		default:
			text = text[6:]
		}
	}
}

// hexUnit reads \uXXXX at the beginning of text, or returns -1.
func hexUnit(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

func clip(text []byte) string {
	const most = 80
	if len(text) <= most {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:most]), "") + "…"
}

// cleanText makes an error text storable: finishing a task must never fail because of what a handler said.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
