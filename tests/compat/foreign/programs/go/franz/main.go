// What the checks ask of a client, by franz-go. README.md lists the words and what is printed.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"foreign/words"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	a := os.Args[2:]
	switch os.Args[1] {
	case "produce":
		produce(a[0], a[1], a[2], words.Number(a[3]))
	case "member":
		member(a[0], a[1], a[2], a[3], a[4], words.Number(a[5]))
	case "admin":
		admin(a[0], a[1], a[2])
	case "copy":
		copyRecords(a[0], a[1], a[2], a[3], words.Number(a[4]), a[5])
	case "topics":
		topics(a[0], a[1:])
	}
}

// topics lists topics with further settings, NAME=VALUE: ca, certificate, mechanism, user, password, token.
func topics(bootstrap string, settings []string) {
	given := map[string]string{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		given[name] = value
	}
	opts := []kgo.Opt{kgo.RetryTimeout(5 * time.Second), kgo.RequestRetries(2)}
	if given["ca"] != "" {
		pem, err := os.ReadFile(given["ca"])
		words.Must(err)
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if given["certificate"] != "" {
			pair, err := tls.LoadX509KeyPair(given["certificate"], given["certificate"])
			words.Must(err)
			config.Certificates = []tls.Certificate{pair}
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	user, password := given["user"], given["password"]
	switch given["mechanism"] {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		opts = append(opts, kgo.SASL(oauth.Auth{Token: given["token"]}.AsMechanism()))
	}
	cl := client(bootstrap, opts...)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found, err := kadm.NewClient(cl).ListTopics(ctx)
	if err != nil {
		words.Say("error", err.Error())
		return
	}
	words.Say("topics", found.Names())
}

func client(bootstrap string, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap), kgo.MetadataMaxAge(2*time.Second), kgo.MetadataMinAge(time.Second))...)
	words.Must(err)
	return made
}

func grouped(bootstrap, group, topic, protocol string, more ...kgo.Opt) []kgo.Opt {
	opts := append(more, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	return opts
}

func produce(bootstrap, topic, codec string, count int) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	cl := client(bootstrap, kgo.ProducerBatchCompression(codecs[codec]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	var records []*kgo.Record
	for n := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(n % words.Partitions),
			Key: []byte("key"), Value: fmt.Appendf(nil, "%s-%d", codec, n)})
	}
	words.Must(cl.ProduceSync(context.Background(), records...).FirstErr())
}

// owned is what a member has, told whenever it changes.
type owned struct {
	lock sync.Mutex
	mine map[int32]bool
}

func (o *owned) change(partitions map[string][]int32, has bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, numbers := range partitions {
		for _, number := range numbers {
			if has {
				o.mine[number] = true
			} else {
				delete(o.mine, number)
			}
		}
	}
	words.Say("assigned", append([]int32{}, slices.Sorted(maps.Keys(o.mine))...))
}

func member(bootstrap, group, topic, protocol, instance string, sessionMs int) {
	mine := &owned{mine: map[int32]bool{}}
	opts := grouped(bootstrap, group, topic, protocol, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { mine.change(p, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { mine.change(p, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { mine.change(p, false) }))
	if protocol == "classic" {
		opts = append(opts, kgo.SessionTimeout(time.Duration(sessionMs)*time.Millisecond), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	cl := client(bootstrap, opts...)
	ctx, stop := context.WithCancel(context.Background())
	go func() { words.EndOfInput(); stop() }()
	for ctx.Err() == nil {
		round, done := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := cl.PollFetches(round)
		done()
		if records := fetches.Records(); len(records) > 0 {
			tell(cl, records)
		}
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
}

func tell(cl *kgo.Client, records []*kgo.Record) {
	var got [][]any
	ends := map[int32]int64{}
	for _, one := range records {
		got = append(got, []any{one.Partition, one.Offset, string(one.Value)})
		ends[one.Partition] = one.Offset + 1
	}
	words.Say("got", got)
	if err := cl.CommitRecords(context.Background(), records...); err != nil {
		words.Say("error", err.Error())
		return
	}
	words.Say("committed", ends)
}

func admin(bootstrap, group, topic string) {
	ctx := context.Background()
	adm := kadm.NewClient(client(bootstrap))
	defer adm.Close()
	listed, err := adm.ListGroups(ctx)
	words.Must(err)
	state := ""
	if described, err := adm.DescribeConsumerGroups(ctx, group); err == nil && described[group].Err == nil {
		state = described[group].State
	} else {
		classic, err := adm.DescribeGroups(ctx, group)
		words.Must(err)
		state = classic[group].State
	}
	reset := kadm.Offsets{}
	reset.AddOffset(topic, 0, 1, -1)
	words.Must(adm.CommitAllOffsets(ctx, group, reset))
	after, err := adm.FetchOffsets(ctx, group)
	words.Must(err)
	at, _ := after.Lookup(topic, 0)
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	forgotten, err := adm.DeleteOffsets(ctx, group, set)
	words.Must(errors.Join(err, forgotten.Error()))
	after, err = adm.FetchOffsets(ctx, group)
	words.Must(err)
	_, still := after.Lookup(topic, 0)
	_, err = adm.DeleteGroup(ctx, group)
	words.Must(err)
	left, err := adm.ListGroups(ctx)
	words.Must(err)
	words.SayAll(map[string]any{"listed": slices.Contains(listed.Groups(), group), "state": state, "reset": at.At,
		"forgotten": !still, "deleted": !slices.Contains(left.Groups(), group)})
}

// copyRecords copies count records, each batch in a transaction with its offsets; after each, one more that is aborted.
func copyRecords(bootstrap, group, from, to string, count int, protocol string) {
	ctx := context.Background()
	opts := grouped(bootstrap, group, from, protocol, kgo.TransactionalID(group), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.SeedBrokers(bootstrap))
	session, err := kgo.NewGroupTransactSession(opts...)
	words.Must(err)
	defer session.Close()
	for done := 0; done < count; {
		fetches := session.PollRecords(ctx, 20)
		records := fetches.Records()
		words.Must(session.Begin())
		for _, one := range records {
			session.Produce(ctx, &kgo.Record{Topic: to, Partition: one.Partition, Value: one.Value}, nil)
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		words.Must(err)
		if committed {
			done += len(records)
		}
	}
	other := client(bootstrap, kgo.TransactionalID(group+"-aborted"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer other.Close()
	words.Must(other.BeginTransaction())
	words.Must(other.ProduceSync(ctx, &kgo.Record{Topic: to, Value: []byte("aborted")}).FirstErr())
	words.Must(other.EndTransaction(ctx, kgo.TryAbort))
}
