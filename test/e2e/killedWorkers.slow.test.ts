import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startApi } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { openStore } from './helpers/store.ts'

const childrenOf = (pid: number): number[] =>
  execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map(Number)

t.test('workers that are killed while settlements are on their way do not end the gateway', async (t) => {
  const chains = await startChains(t)
  const [chain] = chains.both
  const config = await writeConfig(t, chains, { sections: { log: { level: 'info', format: 'json' } } })
  const port = Number(new URL(config.url).port)
  config.rewrite({ gateway: { port, workers: 2, drainTimeoutMs: 3_000 } })
  const gateway = await startGateway(t, config, chains.env)
  const store = await openStore(config, chains.env, newSellerWallets(chains))
  const api = await startApi(t)
  const url = await store.addLink({ url: `${api.url}/one`, slug: 'one', price: '0.001' })
  const buyer = await newBuyer(chains, chain)
  let isEnded = false
  void gateway.exited.then(() => {
    isEnded = true
  })
  chain.rpc.add('*', { kind: 'delay', ms: 150 })

  const targets = Array.from({ length: 40 }, (_, i) => `${url}?n=${i}`)
  const payments = await Promise.all(targets.map((target) => buyer.sign(target)))
  const calls = targets.map((target, i) => present(target, payments[i]!).catch(() => undefined))
  await sleep(100)
  // As a machine without memory does it. The primary, which has no turn meanwhile, has answers for whom it does not know to be gone.
  const workers = childrenOf(gateway.pid)
  gateway.signal('SIGSTOP')
  await sleep(100)
  for (const worker of workers) process.kill(worker, 'SIGKILL')
  await sleep(100)
  gateway.signal('SIGCONT')
  await Promise.all(calls)
  await sleep(4_000)
  t.notOk(isEnded, 'the gateway goes on')
  if (isEnded) return t.comment((await gateway.exited).stdout.split('\n').slice(-3).join('\n'))
  const last = `${url}?n=last`
  const payment = await buyer.sign(last).catch(() => undefined)
  if (payment !== undefined) t.equal((await present(last, payment)).status, 200)
})
