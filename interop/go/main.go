// An NDN application on NDNgo, the library of NDN-DPDK. It reaches its router through shared memory
// (memif), and is the client of the memif control channel, as NDNgo's applications are.
//
//	memif SOCKET produce PREFIX OCTETS   answers every Interest below PREFIX until a signal ends it
//	memif SOCKET consume PREFIX COUNT OCTETS   requests PREFIX/0, PREFIX/1, ... and checks the Data
//
// Each Data has OCTETS octets of content. Each octet is the length of the name's URI, modulo 256.
// The program writes events as JSON lines to standard output.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/usnistgov/ndn-dpdk/ndn"
	"github.com/usnistgov/ndn-dpdk/ndn/endpoint"
	"github.com/usnistgov/ndn-dpdk/ndn/l3"
	"github.com/usnistgov/ndn-dpdk/ndn/memiftransport"
)

// Lifetime of an Interest.
const lifetime = 4 * time.Second

// The environment variable with the number of times that this program has started itself again.
const attemptVariable = "NAMELY_MEMIF_ATTEMPT"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("usage: memif SOCKET produce PREFIX OCTETS | memif SOCKET consume PREFIX COUNT OCTETS")
	}
	if err := connect(args[0]); err != nil {
		return err
	}
	numbers := make([]int, len(args)-3)
	for i, arg := range args[3:] {
		number, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		numbers[i] = number
	}
	switch {
	case args[1] == "produce" && len(numbers) == 1:
		return produce(args[2], numbers[0])
	case args[1] == "consume" && len(numbers) == 2:
		return consume(args[2], numbers[0], numbers[1])
	}
	return fmt.Errorf("%s: no such command with so many arguments", args[1])
}

// Makes shared memory the default route of this process.
func connect(socket string) error {
	transport, err := memiftransport.New(memiftransport.Locator{SocketName: socket})
	if err != nil {
		return err
	}
	for start := time.Now(); transport.State() != l3.TransportUp; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Second {
			return again(socket)
		}
	}
	face, err := l3.NewFace(transport, l3.FaceConfig{})
	if err != nil {
		return err
	}
	fwFace, err := l3.GetDefaultForwarder().AddFace(face)
	if err != nil {
		return err
	}
	fwFace.AddRoute(ndn.Name{})
	return nil
}

// Starts this program again, at most 20 times. gomemif polls a new connection before it has
// registered it. If the router's first message arrives in between, gomemif treats it as an error,
// which no code reads, and stops polling its connections.
func again(socket string) error {
	attempt, _ := strconv.Atoi(os.Getenv(attemptVariable))
	if attempt >= 20 {
		return fmt.Errorf("the router at %s does not take up the interface", socket)
	}
	os.Setenv(attemptVariable, strconv.Itoa(attempt+1))
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

func produce(prefix string, octets int) error {
	handler := func(_ context.Context, interest ndn.Interest) (ndn.Data, error) {
		return ndn.MakeData(interest, content(interest.Name, octets), time.Second), nil
	}
	options := endpoint.ProducerOptions{Prefix: ndn.ParseName(prefix), Handler: handler, NoAdvertise: true}
	if _, err := endpoint.Produce(context.Background(), options); err != nil {
		return err
	}
	say(map[string]any{"event": "ready"})
	select {}
}

func consume(prefix string, count, octets int) error {
	for i := range count {
		name := ndn.ParseName(fmt.Sprintf("%s/%d", prefix, i))
		interest := ndn.MakeInterest(name, lifetime)
		data, err := endpoint.Consume(context.Background(), interest, endpoint.ConsumerOptions{})
		if err != nil {
			return fmt.Errorf("%v: %w", name, err)
		}
		if !data.Name.Equal(name) || !bytes.Equal(data.Content, content(name, octets)) {
			return fmt.Errorf("%v: the wrong Data came, %v with %d octets", name, data.Name, len(data.Content))
		}
	}
	say(map[string]any{"event": "fetched", "count": count})
	return nil
}

func content(name ndn.Name, octets int) []byte {
	return bytes.Repeat([]byte{byte(len(name.String()))}, octets)
}

func say(what map[string]any) {
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}
