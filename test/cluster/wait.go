package cluster

import (
	"fmt"
	"testing"
	"time"
)

const (
	pollInterval = 50 * time.Millisecond
	// Listing all pods of a burst loads the API server, so it is done less often.
	burstPollInterval = 500 * time.Millisecond
)

// poll calls the condition until it holds. The text of its last result is part of the error.
func poll(timeout time.Duration, what string, holds func() (bool, string)) error {
	return pollEvery(pollInterval, timeout, what, holds)
}

func pollEvery(interval, timeout time.Duration, what string, holds func() (bool, string)) error {
	deadline := time.Now().Add(timeout)
	for {
		ok, seen := holds()
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s; last seen: %s", timeout, what, seen)
		}
		time.Sleep(interval)
	}
}

// waitFor ends the test if the condition does not hold within the timeout.
func waitFor(t testing.TB, timeout time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	if err := poll(timeout, what, holds); err != nil {
		t.Fatal(err)
	}
}
