// The obvious consumer of franz-go, its obvious share consumer (GROUP_PROTOCOL=share) and, with a TRANSACTIONAL_ID, its obvious
// read-process-write program.
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
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Getenv("BOOTSTRAP")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")),
		kgo.DefaultProduceTopic(os.Getenv("OUTPUT_TOPIC")),
	}
	if strings.HasPrefix(os.Getenv("TOPIC"), "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if instance := os.Getenv("GROUP_INSTANCE_ID"); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	if rack := os.Getenv("CLIENT_RACK"); rack != "" {
		options = append(options, kgo.Rack(rack))
	}
	if os.Getenv("SASL_MECHANISM") == "PLAIN" {
		auth := plain.Auth{User: os.Getenv("SASL_USERNAME"), Pass: os.Getenv("SASL_PASSWORD")}
		options = append(options, kgo.SASL(auth.AsMechanism()))
	}
	if os.Getenv("GROUP_PROTOCOL") == "share" {
		share(ctx, append(options, kgo.ShareGroup(os.Getenv("GROUP"))))
		return
	}
	options = append(options, kgo.ConsumerGroup(os.Getenv("GROUP")), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if ms, err := strconv.Atoi(os.Getenv("MAX_POLL_INTERVAL_MS")); err == nil {
		options = append(options, kgo.RebalanceTimeout(time.Duration(ms)*time.Millisecond))
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

// share accepts each record that it has copied, and rejects those without a value: nobody can make a text of them.
func share(ctx context.Context, options []kgo.Opt) {
	client := open(options)
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		report("poll", fetches)
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Value == nil || !utf8.Valid(record.Value) {
				record.Ack(kgo.AckReject)
				return
			}
			copied := &kgo.Record{Key: record.Key, Value: record.Value}
			if err := client.ProduceSync(context.Background(), copied).FirstErr(); err != nil {
				fmt.Fprintln(os.Stderr, "given back:", err)
				record.Ack(kgo.AckRelease)
				return
			}
			record.Ack(kgo.AckAccept)
		})
		if err := client.FlushAcks(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "acknowledgement:", err)
		}
	}
	client.Close()
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
