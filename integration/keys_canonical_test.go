package integration_test

import (
	"fmt"
	"strconv"
	"strings"
)

// canonicalString escapes the quote, the backslash and the control characters below U+0020, nothing else.
func canonicalString(s string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if escape, special := short[r]; special {
			b.WriteString(escape)
		} else if r < 0x20 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// canonicalNumber writes a JSON number without exponent, with as many digits after the point as it was given with.
func canonicalNumber(number string) string {
	number, exponentText, _ := strings.Cut(strings.ToLower(number), "e")
	exponent, _ := strconv.Atoi(exponentText)
	number, negative := strings.CutPrefix(number, "-")
	whole, fraction, _ := strings.Cut(number, ".")
	digits, point := whole+fraction, len(whole)+exponent
	if point <= 0 {
		digits, point = strings.Repeat("0", 1-point)+digits, 1
	} else if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, fraction = strings.TrimLeft(digits[:point], "0"), digits[point:]
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && strings.Trim(digits, "0") != "" {
		whole = "-" + whole
	}
	return whole
}
