// A test in Go, as the author of a client would write it: it uses the client that oapi-codegen generates from the OpenAPI document.
//
// It sets a fault rule, prints its id, waits for the rule, reads the clock and streams events until it has seen the rule act. The
// last line that it prints is what it found, as JSON. A failure ends it with a panic.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"adminclient/admin"
)

type found struct {
	Location string `json:"location"`
	Reached  bool   `json:"reached"`
	WallMs   int64  `json:"wall_ms"`
	Fault    string `json:"fault"`
	Refusal  string `json:"refusal"`
}

func main() {
	ctx := context.Background()
	client := must(admin.NewClientWithResponses(os.Args[1]))

	var api admin.Match_Api
	check(api.FromMatchApi0("Heartbeat"))
	failure := "REBALANCE_IN_PROGRESS"
	rule := admin.Rule{Match: &admin.Match{Api: &api}, Action: admin.Action{Error: &failure}}
	made := must(client.CreateFaultWithResponse(ctx, nil, rule))
	fmt.Println(made.JSON201.Id)

	until, timeoutMs := "acted:1", 60_000
	status := must(client.GetFaultWithResponse(ctx, made.JSON201.Id, &admin.GetFaultParams{Until: &until, TimeoutMs: &timeoutMs}))
	clock := must(client.GetClockWithResponse(ctx))
	unknown := must(client.GetFaultWithResponse(ctx, "f999", nil))
	check(json.NewEncoder(os.Stdout).Encode(found{
		Location: made.HTTPResponse.Header.Get("Location"),
		Reached:  *status.JSON200.Reached,
		WallMs:   clock.JSON200.WallMs,
		Fault:    faultThatActed(ctx, client),
		Refusal:  unknown.ApplicationproblemJSON404.Detail,
	}))
}

// faultThatActed reads the stream of events until a rule acted.
func faultThatActed(ctx context.Context, client *admin.ClientWithResponses) string {
	answer := must(client.StreamEvents(ctx, &admin.StreamEventsParams{}))
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var event struct {
			admin.Event
			Fault string `json:"fault"`
		}
		check(json.Unmarshal([]byte(data), &event))
		if event.Type == "FaultActed" {
			return event.Fault
		}
	}
	panic(fmt.Sprint("the stream has ended: ", lines.Err()))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
