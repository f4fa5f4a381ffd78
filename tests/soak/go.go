// Goroutines, channels, select, mutexes, timers, garbage collection, preemption of a goroutine that never calls.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type node struct {
	left, right *node
	value       int
}

func tree(depth int) *node {
	if depth == 0 {
		return &node{value: 1}
	}
	return &node{tree(depth - 1), tree(depth - 1), depth}
}
func (n *node) sum() int {
	if n == nil {
		return 0
	}
	return n.value + n.left.sum() + n.right.sum()
}

func main() {
	runtime.GOMAXPROCS(4)
	jobs, results := make(chan int), make(chan int, 10)
	var group sync.WaitGroup
	for w := 0; w < 8; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for job := range jobs {
				results <- tree(job % 10).sum()
			}
		}()
	}
	go func() {
		for i := 0; i < 500; i++ {
			jobs <- i
		}
		close(jobs)
		group.Wait()
		close(results)
	}()
	total := 0
	for r := range results {
		total += r
	}
	fmt.Println("total", total)

	var mutex sync.Mutex
	counts := map[string]int{}
	var hits int64
	for w := 0; w < 200; w++ {
		group.Add(1)
		go func(w int) {
			defer group.Done()
			for i := 0; i < 50; i++ {
				mutex.Lock()
				counts[strings.Repeat("x", w%5)]++
				mutex.Unlock()
				atomic.AddInt64(&hits, 1)
				if i%10 == 0 {
					runtime.Gosched()
				}
			}
		}(w)
	}
	group.Wait()
	keys := []string{}
	for k := range counts {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Println(len(k), counts[k])
	}
	fmt.Println("hits", hits)

	// Spins without a call: the runtime interrupts it with a signal so that the collector can go on.
	var stop int32
	go func() {
		for n := 0; atomic.LoadInt32(&stop) == 0; n++ {
		}
	}()
	for i := 0; i < 3; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	atomic.StoreInt32(&stop, 1)

	c, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	select {
	case <-c.Done():
		fmt.Println("context", c.Err())
	case <-time.After(100 * time.Second):
		fmt.Println("never")
	}
	ticker := time.NewTicker(time.Millisecond)
	for i := 0; i < 5; i++ {
		<-ticker.C
	}
	ticker.Stop()
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var nothing *node
		fmt.Println(nothing.value)
	}()
	reader, writer, _ := os.Pipe()
	go func() { writer.WriteString("through a pipe"); writer.Close() }()
	text, _ := io.ReadAll(reader)
	fmt.Println(string(text))
}
