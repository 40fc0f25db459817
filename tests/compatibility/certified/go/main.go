// The obvious consumer of franz-go and, with a TRANSACTIONAL_ID, its obvious read-process-write program.
//
// The consumer is what "Offset management" of its documentation recommends for manual commits: BlockRebalanceOnPoll,
// CommitUncommittedOffsets, AllowRebalance. The other is the example transactions/eos: a GroupTransactSession. A commit that
// fails is reported and polling goes on. An argument names another program, which is in wrong.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Getenv("BOOTSTRAP")),
		kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")),
		kgo.DefaultProduceTopic(os.Getenv("OUTPUT_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if strings.HasPrefix(os.Getenv("TOPIC"), "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if instance := os.Getenv("GROUP_INSTANCE_ID"); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if os.Getenv("GROUP_PROTOCOL") == "consumer" {
		// The server-side protocol needs a balancer that the server has, too.
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if len(os.Args) > 1 {
		mistakes[os.Args[1]](ctx, options)
	} else if id := os.Getenv("TRANSACTIONAL_ID"); id != "" {
		transact(ctx, append(options, kgo.TransactionalID(id), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	} else {
		consume(ctx, append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll()))
	}
}

func consume(ctx context.Context, options []kgo.Opt) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		die(err)
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		report("poll", fetches)
		if copied := copies(fetches); len(copied) > 0 && os.Getenv("OUTPUT_TOPIC") != "" {
			if err := client.ProduceSync(context.Background(), copied...).FirstErr(); err != nil {
				die(err)
			}
		}
		if !fetches.Empty() {
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "commit:", err)
			}
		}
		client.AllowRebalance()
	}
}

func transact(ctx context.Context, options []kgo.Opt) {
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		die(err)
	}
	defer session.Close()
	for ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 20)
		report("poll", fetches)
		if fetches.Empty() {
			continue
		}
		if err := session.Begin(); err != nil {
			die(err)
		}
		first := kgo.AbortingFirstErrPromise(session.Client())
		for _, record := range copies(fetches) {
			session.Produce(context.Background(), record, first.Promise())
		}
		committed, err := session.End(context.Background(), first.Err() == nil)
		if err != nil {
			die(err)
		}
		if !committed {
			fmt.Fprintln(os.Stderr, "aborted")
		}
	}
}

func copies(fetches kgo.Fetches) []*kgo.Record {
	var copied []*kgo.Record
	fetches.EachRecord(func(record *kgo.Record) {
		copied = append(copied, &kgo.Record{Key: record.Key, Value: record.Value})
	})
	return copied
}

func report(what string, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		fmt.Fprintln(os.Stderr, what, topic, partition, err)
	})
}

func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
