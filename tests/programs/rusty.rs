// Rust: iterators, hashing with a random seed, strings, a caught panic (unwinding).
use std::collections::{BTreeMap, HashMap};

fn deep(n: u32) -> u32 {
    if n == 0 {
        panic!("bottom");
    }
    deep(n - 1) + 1
}

fn main() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for i in 0..5000u64 {
        let key = format!("k{}", i.wrapping_mul(2654435761) % 97);
        *counts.entry(key).or_default() += 1;
    }
    let sorted: BTreeMap<_, _> = counts.iter().collect();
    let digest = sorted.iter().fold(0usize, |a, (k, v)| a.wrapping_mul(31).wrapping_add(k.len() + **v));
    println!("{} keys, digest {}", sorted.len(), digest);
    std::panic::set_hook(Box::new(|_| ()));
    println!("caught: {}", std::panic::catch_unwind(|| deep(20)).is_err());
    // The iteration order of a HashMap depends on getrandom: only a replay repeats it.
    println!("first by luck: {:?}", counts.iter().next());
}
