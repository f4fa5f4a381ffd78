// Executors, monitors, locks, parallel streams, a queue; a loop that the compiler threads work on; garbage.
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;
import java.util.stream.*;

public class Threads {
  static int shared;
  static synchronized void add() { shared++; }

  static long hot(int n) {
    long x = 88172645463325252L, sum = 0;
    int[] table = new int[1024];
    for (int i = 0; i < n; i++) {
      x ^= x << 13;
      x ^= x >>> 7;
      x ^= x << 17;
      table[(int) (x & 1023)]++;
      sum += table[i & 1023] * (x & 15);
    }
    return sum;
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println("hello");
    if (arguments.length > 0 && arguments[0].equals("hello")) return;
    System.out.println("hot " + hot(3_000_000));
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<Long>> futures = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      final int n = i * 10_000;
      futures.add(pool.submit(() -> hot(n)));
    }
    long sum = 0;
    for (Future<Long> f : futures) sum += f.get();
    System.out.println("pool " + sum);
    pool.shutdown();
    System.out.println(pool.awaitTermination(100, TimeUnit.SECONDS));

    Thread[] threads = new Thread[6];
    for (int i = 0; i < threads.length; i++) {
      threads[i] = new Thread(() -> { for (int k = 0; k < 5000; k++) add(); });
      threads[i].start();
    }
    for (Thread t : threads) t.join();
    System.out.println("shared " + shared);

    BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(3);
    Thread producer = new Thread(() -> {
      try {
        for (int i = 1; i <= 500; i++) queue.put(i);
        queue.put(-1);
      } catch (InterruptedException e) { throw new RuntimeException(e); }
    });
    producer.start();
    int taken, total = 0;
    while ((taken = queue.take()) > 0) total += taken;
    System.out.println("queue " + total);

    Object monitor = new Object();
    int[] turn = {0};
    Thread[] players = new Thread[2];
    for (int p = 0; p < 2; p++) {
      final int me = p;
      players[p] = new Thread(() -> {
        for (int i = 0; i < 200; i++)
          synchronized (monitor) {
            try { while (turn[0] % 2 != me) monitor.wait(); } catch (InterruptedException e) { return; }
            turn[0]++;
            monitor.notifyAll();
          }
      });
      players[p].start();
    }
    for (Thread t : players) t.join();
    System.out.println("turn " + turn[0]);
    System.out.println("stream " + IntStream.range(0, 200_000).parallel().mapToLong(i -> i % 7).sum());
    Map<String, LongAdder> counts = new ConcurrentHashMap<>();
    IntStream.range(0, 50_000).parallel()
        .forEach(i -> counts.computeIfAbsent("key" + i % 10, k -> new LongAdder()).increment());
    System.out.println(new TreeMap<>(counts));
    List<byte[]> kept = new ArrayList<>();
    for (int i = 0; i < 3000; i++) {
      byte[] block = new byte[16384];
      if (i % 100 == 0) kept.add(block);
    }
    System.gc();
    System.out.println("kept " + kept.size());
    Thread sleeper = new Thread(() -> {
      try { Thread.sleep(100_000); } catch (InterruptedException e) { System.out.println("interrupted"); }
    });
    sleeper.start();
    Thread.sleep(5);
    sleeper.interrupt();
    sleeper.join();
    int[] none = null;
    try { none[0]++; } catch (NullPointerException e) { System.out.println("null"); }
    try { deeper(0); } catch (StackOverflowError e) { System.out.println("too deep"); }
  }
  static int deeper(int n) { return deeper(n + 1) + 1; }
}
