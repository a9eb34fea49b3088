// Go clients at default settings, driven by lines on standard input.
//
// The format stands in ../clients/driven.py. Here: questions and answers. Next door: the clients,
// and the same clients at a secured broker (secured.go).
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	answerWithin = 60 * time.Second
	pollFor      = 200 * time.Millisecond
)

type record struct {
	partition  int32
	offset     int64
	key, value []byte
	timeMs     int64
}

type client interface {
	produce(topic, codec string, idempotent bool, records []record) ([]int64, error)
	consume(topic string, partitions []int32, count int) ([]record, error)
	subscribe(group, topic string) (member, error)
	create(topic string, partitions int32) error
	delete(topic string) error
	addPartitions(topic string, total int32) error
	alter(topic, name, value string) error
	list() (map[string]int, error)
}

type member interface {
	poll() ([]record, error)
	leave() error
}

type driver struct {
	client  client
	in      *bufio.Reader
	out     *bufio.Writer
	members map[string]member
}

func main() {
	if os.Args[1] == "secured" {
		serveSecured(os.Args[2])
		return
	}
	kinds := map[string]func(string) client{"franz": newFranz, "sarama": newSarama}
	made := kinds[os.Args[1]](os.Args[2])
	d := &driver{made, bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout), map[string]member{}}
	for {
		line, err := d.in.ReadString('\n')
		if err != nil {
			return
		}
		if err := d.obey(strings.Split(strings.TrimSuffix(line, "\n"), " ")); err != nil {
			fmt.Fprintf(d.out, "ERR %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintln(d.out, "OK")
		}
		d.out.Flush()
	}
}

func (d *driver) obey(words []string) error {
	switch words[0] {
	case "PRODUCE":
		return d.produce(words[1], words[2], false, number(words[3]))
	case "IDEMPOTENT":
		return d.produce(words[1], "none", true, number(words[2]))
	case "CONSUME":
		var partitions []int32
		for _, word := range strings.Split(words[2], ",") {
			partitions = append(partitions, int32(number(word)))
		}
		return d.print(d.client.consume(words[1], partitions, number(words[3])))
	case "SUBSCRIBE":
		made, err := d.client.subscribe(words[2], words[3])
		d.members[words[1]] = made
		return err
	case "POLL":
		return d.print(d.members[words[1]].poll())
	case "LEAVE":
		return d.members[words[1]].leave()
	case "CREATE":
		return d.client.create(words[1], int32(number(words[2])))
	case "PARTITIONS":
		return d.client.addPartitions(words[1], int32(number(words[2])))
	case "ALTER":
		return d.client.alter(words[1], words[3], words[4])
	case "DELETE":
		return d.client.delete(words[1])
	case "LIST":
		topics, err := d.client.list()
		for name, partitions := range topics {
			fmt.Fprintf(d.out, "%s %d\n", name, partitions)
		}
		return err
	}
	return fmt.Errorf("no such question: %s", words[0])
}

func (d *driver) produce(topic, codec string, idempotent bool, count int) error {
	records := make([]record, count)
	for at := range records {
		line, err := d.in.ReadString('\n')
		if err != nil {
			return err
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		records[at] = record{partition: int32(number(words[0])), key: raw(words[1]), value: raw(words[2])}
	}
	offsets, err := d.client.produce(topic, codec, idempotent, records)
	for _, offset := range offsets {
		fmt.Fprintln(d.out, offset)
	}
	return err
}

func (d *driver) print(records []record, err error) error {
	for _, r := range records {
		fmt.Fprintf(d.out, "%d %d %s %s %d\n", r.partition, r.offset, word(r.key), word(r.value), r.timeMs)
	}
	return err
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

func raw(word string) []byte {
	if word == "~" {
		return nil
	}
	bytes, err := base64.StdEncoding.DecodeString(word[1:])
	if err != nil {
		panic(err)
	}
	return bytes
}

func word(raw []byte) string {
	if raw == nil {
		return "~"
	}
	return "." + base64.StdEncoding.EncodeToString(raw)
}
