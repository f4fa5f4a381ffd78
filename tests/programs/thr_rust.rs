// Rust: std::thread, channels, locks, conditions, scoped threads, park and unpark, thread-locals, a panic that is caught
// by join. Hash maps have random keys, so only sorted things are printed.
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;
use std::time::Duration;

thread_local!(static NAME: RefCell<String> = RefCell::new("fresh".to_string()));

fn main() {
    let counter = Arc::new(Mutex::new(HashMap::new()));
    let workers: Vec<_> = (0..4)
        .map(|w| {
            let counter = Arc::clone(&counter);
            thread::Builder::new()
                .name(format!("worker-{w}"))
                .spawn(move || {
                    NAME.with(|n| n.borrow_mut().push_str(thread::current().name().unwrap()));
                    for i in 0..1000 {
                        *counter.lock().unwrap().entry(i % 10).or_insert(0) += w;
                    }
                    NAME.with(|n| n.borrow().clone())
                })
                .unwrap()
        })
        .collect();
    for worker in workers {
        println!("{}", worker.join().unwrap());
    }
    let mut counts: Vec<_> = counter.lock().unwrap().iter().map(|(k, v)| (*k, *v)).collect();
    counts.sort();
    println!("{:?}", counts);

    let (sender, receiver) = mpsc::sync_channel(3);
    let senders: Vec<_> = (0..3)
        .map(|s| {
            let sender = sender.clone();
            thread::spawn(move || (0..200).for_each(|i| sender.send(s * 1000 + i).unwrap()))
        })
        .collect();
    drop(sender);
    let sum: i64 = receiver.iter().sum();
    println!("sum {sum}");
    senders.into_iter().for_each(|s| s.join().unwrap());

    let numbers: Vec<u64> = (0..10000).collect();
    let total: u64 = thread::scope(|scope| {
        let parts: Vec<_> = numbers.chunks(2500).map(|c| scope.spawn(move || c.iter().sum::<u64>())).collect();
        parts.into_iter().map(|p| p.join().unwrap()).sum()
    });
    println!("total {total}");

    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let players: Vec<_> = (0..2)
        .map(|me| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                for _ in 0..200 {
                    let mut turn = pair.1.wait_while(pair.0.lock().unwrap(), |t| *t % 2 != me).unwrap();
                    *turn += 1;
                    pair.1.notify_all();
                }
            })
        })
        .collect();
    players.into_iter().for_each(|p| p.join().unwrap());
    println!("turn {}", pair.0.lock().unwrap());
    let waited = pair.1.wait_timeout_while(pair.0.lock().unwrap(), Duration::from_millis(2), |_| true).unwrap();
    println!("timed out {}", waited.1.timed_out());
    drop(waited);

    let stage = Arc::new(AtomicUsize::new(0));
    let parked = {
        let stage = Arc::clone(&stage);
        thread::spawn(move || {
            while stage.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            stage.fetch_add(10, Ordering::Release);
        })
    };
    stage.store(1, Ordering::Release);
    parked.thread().unpark();
    parked.join().unwrap();
    println!("stage {}", stage.load(Ordering::Acquire));

    let lock = Arc::new(RwLock::new(vec![0u32; 4]));
    let barrier = Arc::new(Barrier::new(4));
    let together: Vec<_> = (0..4)
        .map(|i| {
            let (lock, barrier) = (Arc::clone(&lock), Arc::clone(&barrier));
            thread::spawn(move || {
                lock.write().unwrap()[i] = i as u32 + 1;
                barrier.wait();
                lock.read().unwrap().iter().sum::<u32>()
            })
        })
        .collect();
    println!("{:?}", together.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>());

    std::panic::set_hook(Box::new(|info| eprintln!("panic: {}", info.payload().downcast_ref::<&str>().unwrap())));
    let poisoned = Arc::new(Mutex::new(1));
    let result = {
        let poisoned = Arc::clone(&poisoned);
        thread::spawn(move || {
            let _guard = poisoned.lock().unwrap();
            panic!("with the lock")
        })
        .join()
    };
    println!("joined with error {}, poisoned {}", result.is_err(), poisoned.is_poisoned());
    thread::sleep(Duration::from_millis(2));
}
