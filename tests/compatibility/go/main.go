// franz-go as a client program: the same commands and events as the programs in ../clients, but for the time of an event.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	poll   = 50 * time.Millisecond
	within = 20 * time.Second
)

var (
	saying sync.Mutex
	codecs = map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}
	balancers = map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
)

// place is [topic, partition] or [topic, partition, offset].
type place struct {
	topic     string
	partition int32
	offset    int64
}

func (p *place) UnmarshalJSON(data []byte) error {
	fields := []any{&p.topic, &p.partition, &p.offset}
	return json.Unmarshal(data, &fields)
}

type command struct {
	ID               int               `json:"id"`
	Do               string            `json:"do"`
	Group            string            `json:"group"`
	Topic            string            `json:"topic"`
	Topics           []string          `json:"topics"`
	ClientID         string            `json:"client_id"`
	Instance         string            `json:"instance"`
	Assignors        string            `json:"assignors"`
	SessionTimeoutMs int               `json:"session_timeout_ms"`
	HeartbeatMs      int               `json:"heartbeat_ms"`
	Values           []string          `json:"values"`
	Times            []int64           `json:"times"`
	Codec            string            `json:"codec"`
	Idempotent       bool              `json:"idempotent"`
	Partition        *int32            `json:"partition"`
	Offset           int64             `json:"offset"`
	Count            int               `json:"count"`
	TimeMs           int64             `json:"time_ms"`
	Offsets          []place           `json:"offsets"`
	Partitions       []place           `json:"partitions"`
	Configs          map[string]string `json:"configs"`
}

type program struct {
	bootstrap string
	consumer  *kgo.Client
	group     string
}

func main() {
	if len(os.Args) > 2 {
		share(os.Args[1], os.Args[2])
		return
	}
	commands := make(chan command)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var one command
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			commands <- one
		}
		os.Exit(0)
	}()
	p := &program{bootstrap: os.Args[1]}
	say(map[string]any{"event": "ready"})
	for {
		select {
		case one := <-commands:
			p.obey(one)
		case <-p.polled():
		}
	}
}

// polled lets the consumer work for a moment and says its records; without a consumer nothing ever comes.
func (p *program) polled() <-chan struct{} {
	if p.consumer == nil {
		return nil
	}
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), poll)
	defer cancel()
	var found [][]any
	p.consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
		found = append(found, []any{record.Topic, record.Partition, record.Offset, string(record.Value)})
	})
	if len(found) > 0 {
		say(map[string]any{"event": "records", "records": found})
	}
	close(done)
	return done
}

func (p *program) obey(one command) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	answer := map[string]any{"id": one.ID}
	result, err := p.result(ctx, one)
	if err != nil {
		fmt.Fprintln(os.Stderr, one.Do, err)
		answer["error"] = err.Error()
	} else {
		answer["result"] = result
	}
	say(answer)
}

func (p *program) result(ctx context.Context, one command) (any, error) {
	switch one.Do {
	case "join":
		return nil, p.join(one)
	case "member_id":
		id, _ := p.consumer.GroupMetadata()
		return id, nil
	case "commit":
		return nil, p.consumer.CommitUncommittedOffsets(ctx)
	case "commit_at":
		return nil, p.commitAt(ctx, one.Offsets)
	case "seek":
		p.consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{
			one.Topic: {*one.Partition: {Epoch: -1, Offset: one.Offset}},
		})
		return nil, nil
	case "leave":
		p.consumer.Close()
		p.consumer = nil
		return nil, nil
	case "produce":
		return nil, p.produce(ctx, one)
	case "read_since":
		return p.readSince(ctx, one)
	}
	client, err := kgo.NewClient(p.secured()...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return p.administrate(ctx, kadm.NewClient(client), one)
}

func (p *program) join(one command) error {
	var chosen []kgo.GroupBalancer
	for _, name := range strings.Split(one.Assignors, ",") {
		chosen = append(chosen, balancers[name])
	}
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			pairs := [][]any{}
			for topic, indexes := range partitions {
				for _, index := range indexes {
					pairs = append(pairs, []any{topic, index})
				}
			}
			say(map[string]any{"event": event, "partitions": pairs})
		}
	}
	options := append(p.secured(),
		kgo.ClientID(one.ClientID),
		kgo.ConsumerGroup(one.Group),
		kgo.ConsumeTopics(one.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.Balancers(chosen...),
		kgo.SessionTimeout(time.Duration(one.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(one.HeartbeatMs) * time.Millisecond),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")),
	)
	if one.Instance != "" {
		options = append(options, kgo.InstanceID(one.Instance))
	}
	client, err := kgo.NewClient(options...)
	p.consumer, p.group = client, one.Group
	return err
}

func (p *program) commitAt(ctx context.Context, places []place) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, one := range places {
		if offsets[one.topic] == nil {
			offsets[one.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[one.topic][one.partition] = kgo.EpochOffset{Epoch: -1, Offset: one.offset}
	}
	// The callback alone tells what each partition was answered.
	var failed error
	p.consumer.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	return failed
}

func (p *program) produce(ctx context.Context, one command) error {
	options := append(p.secured(), kgo.ProducerLinger(5*time.Millisecond))
	if one.Partition != nil {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if !one.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if one.Codec != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[one.Codec]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for number, value := range one.Values {
		record := &kgo.Record{Topic: one.Topic, Value: []byte(value)}
		if one.Partition != nil {
			record.Partition = *one.Partition
		}
		if one.Times != nil {
			record.Timestamp = time.UnixMilli(one.Times[number])
		}
		records = append(records, record)
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// readSince reads so many records of a partition, the first being the first of that time or later.
func (p *program) readSince(ctx context.Context, one command) (any, error) {
	client, err := kgo.NewClient(append(p.secured(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		one.Topic: {*one.Partition: kgo.NewOffset().AfterMilli(one.TimeMs)},
	}))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	values := []string{}
	for len(values) < one.Count && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, ctx.Err()
}

func (p *program) administrate(ctx context.Context, admin *kadm.Client, one command) (any, error) {
	switch one.Do {
	case "committed", "group_offsets":
		group := one.Group
		if one.Do == "committed" {
			group = p.group
		}
		return committed(ctx, admin, group, one.Partitions)
	case "list_groups":
		listed, err := admin.ListGroups(ctx)
		return listed.Groups(), err
	case "describe_group":
		described, err := admin.DescribeGroups(ctx, one.Group)
		if err != nil {
			return nil, err
		}
		members := []string{}
		for _, member := range described[one.Group].Members {
			members = append(members, member.ClientID)
		}
		return map[string]any{"state": described[one.Group].State, "members": members}, nil
	case "end_offsets":
		ends := []int64{}
		for _, asked := range one.Partitions {
			found, err := admin.ListEndOffsets(ctx, asked.topic)
			if err != nil {
				return nil, err
			}
			end, _ := found.Lookup(asked.topic, asked.partition)
			ends = append(ends, end.Offset)
		}
		return ends, nil
	case "alter_offsets":
		offsets := kadm.Offsets{}
		for _, wanted := range one.Offsets {
			offsets.AddOffset(wanted.topic, wanted.partition, wanted.offset, -1)
		}
		return nil, admin.CommitAllOffsets(ctx, one.Group, offsets)
	case "delete_group":
		_, err := admin.DeleteGroup(ctx, one.Group)
		return nil, err
	case "create_topic":
		configs := map[string]*string{}
		for key, value := range one.Configs {
			configs[key] = &value
		}
		_, err := admin.CreateTopic(ctx, int32(one.Count), 1, configs, one.Topic)
		return nil, err
	case "delete_topic":
		_, err := admin.DeleteTopic(ctx, one.Topic)
		return nil, err
	case "topic":
		topics, err := admin.ListTopics(ctx, one.Topic)
		if err != nil || errors.Is(topics[one.Topic].Err, kerr.UnknownTopicOrPartition) {
			return 0, err
		}
		return len(topics[one.Topic].Partitions), topics[one.Topic].Err
	case "add_partitions":
		answers, err := admin.UpdatePartitions(ctx, one.Count, one.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(one.Topic, *one.Partition, one.Offset, -1)
		answers, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	case "set_config":
		var changes []kadm.AlterConfig
		for key, value := range one.Configs {
			changes = append(changes, kadm.AlterConfig{Name: key, Value: &value})
		}
		answers, err := admin.AlterTopicConfigs(ctx, changes, one.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers[0].Err
	case "configs":
		answers, err := admin.DescribeTopicConfigs(ctx, one.Topic)
		if err != nil {
			return nil, err
		}
		values := map[string]string{}
		for _, config := range answers[0].Configs {
			values[config.Key] = config.MaybeValue()
		}
		return values, answers[0].Err
	case "brokers":
		brokers, err := admin.ListBrokers(ctx)
		return len(brokers), err
	}
	return nil, fmt.Errorf("no such command: %s", one.Do)
}

func committed(ctx context.Context, admin *kadm.Client, group string, partitions []place) (any, error) {
	found, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := []any{}
	for _, asked := range partitions {
		if one, there := found.Lookup(asked.topic, asked.partition); there && one.At >= 0 {
			offsets = append(offsets, one.At)
		} else {
			offsets = append(offsets, nil)
		}
	}
	return offsets, nil
}

// secured returns the bootstrap address and the options of SECURITY (see ../clients/commands.py).
func (p *program) secured() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(p.bootstrap)}
	security := map[string]string{}
	if text := os.Getenv("SECURITY"); text != "" {
		if err := json.Unmarshal([]byte(text), &security); err != nil {
			panic(err)
		}
	}
	if security["ca"] != "" {
		authority, err := os.ReadFile(security["ca"])
		if err != nil {
			panic(err)
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(authority)
		if security["certificate"] != "" {
			pair, err := tls.LoadX509KeyPair(security["certificate"], security["key"])
			if err != nil {
				panic(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	user, password := security["user"], security["password"]
	switch security["mechanism"] {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: security["token"]}.AsMechanism()))
	}
	return options
}

func say(message map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}
