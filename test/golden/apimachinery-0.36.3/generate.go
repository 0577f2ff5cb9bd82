//go:build ignore

// Prints how apimachinery reads quantities: text, outcome and canonical form, separated by tabs.
// The outcome is the value where it is a whole number from 0 to 2^62, else why not.
//
//	cd test/cluster && go run ../golden/apimachinery-0.36.3/generate.go \
//	    > ../golden/apimachinery-0.36.3/quantities.tsv
package main

import (
	"bufio"
	"fmt"
	"math/big"
	"math/rand"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

func outcome(q resource.Quantity) string {
	dec := q.AsDec()
	unscaled := new(big.Int).Set(dec.UnscaledBig())
	scale := int64(dec.Scale())
	if scale <= 0 {
		unscaled.Mul(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(-scale), nil))
	} else {
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(scale), nil)
		rest := new(big.Int)
		unscaled.QuoRem(unscaled, power, rest)
		if rest.Sign() != 0 {
			if dec.Sign() < 0 {
				return "negative"
			}
			return "fraction"
		}
	}
	if unscaled.Sign() < 0 {
		return "negative"
	}
	if unscaled.BitLen() > 63 || unscaled.Cmp(new(big.Int).Lsh(big.NewInt(1), 62)) > 0 {
		return "huge"
	}
	return unscaled.String()
}

func main() {
	r := rand.New(rand.NewSource(11))
	pick := func(s []string) string { return s[r.Intn(len(s))] }
	digits := func(n int) string {
		var b strings.Builder
		for i := r.Intn(n); i >= 0; i-- {
			if r.Intn(3) == 0 {
				b.WriteByte('0')
			} else {
				b.WriteByte(byte('0' + r.Intn(10)))
			}
		}
		return b.String()
	}
	suffixes := []string{"", "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e3", "E3", "e+2", "e-2", "E-6", "e6", "K", "ki", "i", "e", "E+", "kk", "mi", "g", " ", "e1.5", "KiB"}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	seen := map[string]bool{}
	emit := func(text string) {
		if seen[text] {
			return
		}
		seen[text] = true
		q, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Fprintf(out, "%s\tinvalid\t-\n", text)
			return
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", text, outcome(q), q.String())
	}
	for i := 0; i < 700; i++ {
		text := pick([]string{"", "", "", "", "+", "-"})
		switch r.Intn(5) {
		case 0:
			text += digits(3) + "." + digits(3)
		case 1:
			text += "." + digits(2)
		case 2:
			text += digits(12)
		default:
			text += digits(5)
		}
		emit(text + pick(suffixes))
	}
	alphabet := "0123456789.+-eEinumkKMGTP"
	for i := 0; i < 400; i++ {
		var b strings.Builder
		for j := 1 + r.Intn(5); j > 0; j-- {
			b.WriteByte(alphabet[r.Intn(len(alphabet))])
		}
		emit(b.String())
	}
	for _, text := range []string{"8000", "12000", "16000", "130040", "4611686018427387904", "4611686018427387905", "4Ei", "5Ei", "5E", "9223372036854775807", "9223372036854775808", "0.0009765625Ki"} {
		emit(text)
	}
}
