// Worker threads with shared memory, the thread pool behind files, compression and cryptography, a hot loop.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), fs = require('fs'), os = require('os'), path = require('path'), zlib = require('zlib');

function hot(n) {
  let sum = 0;
  const table = new Map();
  for (let i = 0; i < n; i++) {
    const key = (i * 7919) % 1009;
    table.set(key, (table.get(key) || 0) + i % 13);
    sum = (sum + Math.imul(i, 2654435761) % 1000) | 0;
  }
  for (const v of table.values()) sum = (sum + v) | 0;
  return sum;
}

if (!isMainThread) {
  const counter = new Int32Array(workerData.shared);
  for (let i = 0; i < 1000; i++) Atomics.add(counter, 0, 1);
  const result = hot(200000 + workerData.n);
  if (workerData.n === 0) Atomics.wait(counter, 1, 0, 20);
  Atomics.notify(counter, 1);
  parentPort.postMessage(result);
} else {
  (async () => {
    console.log('hot', hot(1000000));
    const shared = new SharedArrayBuffer(16);
    const results = await Promise.all([0, 1, 2, 3].map(n => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: { n, shared } });
      worker.on('message', resolve);
      worker.on('error', reject);
    })));
    console.log('workers', results.join(' '), new Int32Array(shared)[0]);
    const keys = await Promise.all([1, 2, 3, 4, 5, 6].map(n => new Promise((resolve, reject) =>
      crypto.pbkdf2('secret' + n, 'salt', 2000, 16, 'sha256', (e, key) => e ? reject(e) : resolve(key.toString('hex'))))));
    console.log(keys.join('\n'));
    const packed = await new Promise((resolve, reject) =>
      zlib.gzip('text '.repeat(50000), (e, data) => e ? reject(e) : resolve(data)));
    console.log('packed', zlib.gunzipSync(packed).length);
    const text = await Promise.all([...Array(10).keys()].map(() => fs.promises.readFile(__filename, 'utf8')));
    console.log('read', new Set(text).size);
    await new Promise(resolve => setTimeout(resolve, 5));
    let ticks = 0;
    await new Promise(resolve => { const t = setInterval(() => { if (++ticks === 5) { clearInterval(t); resolve(); } }, 1); });
    console.log('ticks', ticks);
  })().catch(e => { console.error(e); process.exit(1); });
}
