// What the checks ask of a client, by sarama. README.md lists the words and what is printed.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"foreign/words"

	"github.com/IBM/sarama"
)

func main() {
	a := os.Args[2:]
	switch os.Args[1] {
	case "produce":
		produce(a[0], a[1], a[2], words.Number(a[3]))
	case "member":
		member(a[0], a[1], a[2], a[4], words.Number(a[5]))
	case "admin":
		admin(a[0], a[1], a[2])
	case "copy":
		copyRecords(a[0], a[1], a[2], a[3], words.Number(a[4]))
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Metadata.RefreshFrequency = 2 * time.Second
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.Return.Errors = true
	made.Consumer.MaxWaitTime = 500 * time.Millisecond
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	return made
}

func produce(bootstrap, topic, codec string, count int) {
	cfg := config()
	words.Must(cfg.Producer.Compression.UnmarshalText([]byte(codec)))
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, cfg)
	words.Must(err)
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for n := range count {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: int32(n % words.Partitions),
			Key: sarama.StringEncoder("key"), Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", codec, n))})
	}
	words.Must(producer.SendMessages(messages))
}

// handler calls consumed for each message, and says whether there are more of its partition at hand.
type handler struct {
	consumed func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage, more bool)
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	mine := []int32{}
	for _, partitions := range session.Claims() {
		mine = append(mine, partitions...)
	}
	slices.Sort(mine)
	words.Say("assigned", mine)
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	words.Say("assigned", []int32{})
	return nil
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.consumed(session, message, len(claim.Messages()) > 0)
		case <-session.Context().Done():
			return nil
		}
	}
}

func tell(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage, more bool) {
	words.Say("got", [][]any{{message.Partition, message.Offset, string(message.Value)}})
	session.MarkMessage(message, "")
	if more {
		return // a commit waits behind the long poll on the same connection: one for all that is at hand
	}
	session.Commit()
	words.Say("committed", map[int32]int64{message.Partition: message.Offset + 1})
}

func member(bootstrap, group, topic, instance string, sessionMs int) {
	cfg := config()
	cfg.Consumer.Group.Session.Timeout = time.Duration(sessionMs) * time.Millisecond
	cfg.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	cfg.Consumer.Group.InstanceId = instance
	one, err := sarama.NewConsumerGroup([]string{bootstrap}, group, cfg)
	words.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	go func() { words.EndOfInput(); stop() }()
	go func() {
		for err := range one.Errors() {
			words.Say("error", err.Error())
		}
	}()
	for ctx.Err() == nil {
		if err := one.Consume(ctx, []string{topic}, &handler{consumed: tell}); err != nil {
			words.Say("error", err.Error())
			time.Sleep(200 * time.Millisecond)
		}
	}
	words.Must(one.Close())
}

func admin(bootstrap, group, topic string) {
	adm, err := sarama.NewClusterAdmin([]string{bootstrap}, config())
	words.Must(err)
	defer adm.Close()
	groups, err := adm.ListConsumerGroups()
	words.Must(err)
	_, listed := groups[group]
	described, err := adm.DescribeConsumerGroups([]string{group})
	words.Must(err)
	_, err = adm.AlterConsumerGroupOffsets(group, map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 1, LeaderEpoch: -1}}}, nil)
	words.Must(err)
	reset := offset(adm, group, topic)
	words.Must(adm.DeleteConsumerGroupOffset(group, topic, 0))
	forgotten := offset(adm, group, topic) < 0
	words.Must(adm.DeleteConsumerGroup(group))
	groups, err = adm.ListConsumerGroups()
	words.Must(err)
	_, left := groups[group]
	words.SayAll(map[string]any{"listed": listed, "state": described[0].State, "reset": reset, "forgotten": forgotten, "deleted": !left})
}

func offset(adm sarama.ClusterAdmin, group, topic string) int64 {
	found, err := adm.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	words.Must(err)
	return found.Blocks[topic][0].Offset
}

// copyRecords copies count records, each in a transaction with its offset; after each tenth, one more that is aborted.
func copyRecords(bootstrap, group, from, to string, count int) {
	cfg := config()
	cfg.Producer.Idempotent = true
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Transaction.ID = group
	cfg.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, cfg)
	words.Must(err)
	defer producer.Close()
	one, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config())
	words.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan *sarama.ConsumerMessage)
	go func() {
		_ = one.Consume(ctx, []string{from}, &handler{consumed: func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage, _ bool) {
			select {
			case ready <- message:
			case <-session.Context().Done():
			}
		}})
	}()
	for done := 0; done < count; done++ {
		message := <-ready
		words.Must(producer.BeginTxn())
		send(producer, to, message.Partition, string(message.Value))
		words.Must(producer.AddMessageToTxn(message, group, nil))
		words.Must(producer.CommitTxn())
		if done%10 == 0 {
			words.Must(producer.BeginTxn())
			send(producer, to, 0, "aborted")
			words.Must(producer.AbortTxn())
		}
	}
	stop()
	_ = one.Close()
}

func send(producer sarama.SyncProducer, topic string, partition int32, value string) {
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)})
	words.Must(err)
}
