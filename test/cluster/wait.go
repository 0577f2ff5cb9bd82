package cluster

import (
	"fmt"
	"testing"
	"time"
)

const (
	pollInterval = 50 * time.Millisecond
	// Looking at all pods of a burst takes the API server's time, which the scheduler needs.
	burstPollInterval = 500 * time.Millisecond
)

// poll looks until the condition holds. The condition also says what it saw, for the error.
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

// waitFor ends the test when the condition does not come to hold.
func waitFor(t testing.TB, timeout time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	if err := poll(timeout, what, holds); err != nil {
		t.Fatal(err)
	}
}
