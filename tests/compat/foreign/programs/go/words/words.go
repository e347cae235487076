// Package words is what both Go programs share: what they print, and when they end.
package words

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
)

const Partitions = 4

var lock sync.Mutex

// Say prints one JSON object on a line of its own.
func Say(key string, value any) {
	SayAll(map[string]any{key: value})
}

func SayAll(facts map[string]any) {
	line, err := json.Marshal(facts)
	Must(err)
	lock.Lock()
	defer lock.Unlock()
	fmt.Println(string(line))
}

// Must ends the program, with a line on standard error, when something failed.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Number(word string) int {
	number, err := strconv.Atoi(word)
	Must(err)
	return number
}

// EndOfInput returns when standard input ends: the sign to leave.
func EndOfInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
}
